// Records operators that read data: numbers become symbols, and so do sizes that data decides.
#include "aot/data_ops.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/recorder.h"
#include "aot/shapes.h"
#include "aot/size_rules.h"
#include "aot/symbolic_layouts.h"
#include "base/error.h"
#include "graph/data_symbols.h"

namespace firesteel {
namespace {

using c10::IValue;
using torch::jit::Stack;

// One call of such an operator on fake tensors.
struct DataCall {
  const OpPlan& plan;
  Recorder& recorder;
  c10::ArrayRef<IValue> args;
  std::vector<std::pair<SymbolicLayout, at::ScalarType>> results = {};

  const at::Tensor& tensor(size_t i) const { return args[i].toTensor(); }
  std::vector<Dim> sizes(size_t i) const { return layout_of(tensor(i)).sizes; }

  // How many of its elements something holds for: the same symbol each time it is asked.
  Dim count(const char* of_what, const at::Tensor& of) const {
    const std::string key = fmt::format("{} of {}", of_what, static_cast<const void*>(as_fake(of)->value()));
    auto [found, is_new] = recorder.data_sizes.try_emplace(key);
    if (is_new) {
      found->second = recorder.symbols->add_data(0);
      recorder.symbols->know(Relation::le(found->second, elements(layout_of(of).sizes)));
    }
    return found->second;
  }
  Dim new_size() const { return recorder.symbols->add_data(0); }

  void give(std::vector<Dim> sizes, at::ScalarType dtype) {
    std::vector<Dim> strides = contiguous_strides(sizes);
    results.push_back({{std::move(sizes), std::move(strides), 0}, dtype});
  }
};

bool nonzero(DataCall& call) {
  const auto rank = static_cast<int64_t>(call.sizes(0).size());
  const Dim found = call.count("nonzero", call.tensor(0));
  call.results.push_back({{{found, Dim(rank)}, {Dim(1), found}, 0}, at::kLong});
  return true;
}

bool masked_select(DataCall& call) {
  const bool same = call.sizes(0) == call.sizes(1);
  call.give({same ? call.count("nonzero", call.tensor(1)) : call.new_size()}, call.tensor(0).scalar_type());
  return true;
}

// Values, where each element went, and how many there are of each.
bool unique(DataCall& call, bool inverse, bool counts) {
  const Dim found = call.new_size();
  call.recorder.symbols->know(Relation::le(found, elements(call.sizes(0))));
  call.give({found}, call.tensor(0).scalar_type());
  call.give(inverse ? call.sizes(0) : std::vector<Dim>{0}, at::kLong);
  call.give(counts ? std::vector<Dim>{found} : std::vector<Dim>{0}, at::kLong);
  return true;
}

bool unique2(DataCall& call) { return unique(call, call.args[2].toBool(), call.args[3].toBool()); }

bool unique_consecutive(DataCall& call) {
  return call.args[3].isNone() && unique(call, call.args[1].toBool(), call.args[2].toBool());
}

bool unique_dim(DataCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  if (sizes.empty() || c10::maybe_wrap_dim(call.args[1].toInt(), static_cast<int64_t>(sizes.size())) != 0) return false;
  const Dim before = sizes[0], found = call.new_size();
  call.recorder.symbols->know(Relation::le(found, before));
  sizes[0] = found;
  call.give(std::move(sizes), call.tensor(0).scalar_type());
  call.give({before}, at::kLong);
  call.give({found}, at::kLong);
  return true;
}

bool repeat_interleave(DataCall& call) {
  call.give({call.new_size()}, at::kLong);
  return true;
}

// A mask stands for as many index tensors as it has dimensions: the sizes are those that these give.
bool index_by_mask(DataCall& call) {
  c10::List<std::optional<at::Tensor>> indices;
  bool known = false;
  const OutsideTrace outside;
  for (const std::optional<at::Tensor>& index : call.args[1].toOptionalTensorVector()) {
    if (!index || !index->defined()) {
      indices.push_back(std::nullopt);
      continue;
    }
    if (index->scalar_type() != at::kBool || std::exchange(known, true)) return false;
    const Dim picked = call.count("nonzero", *index);
    const int64_t hint = call.recorder.symbols->hint(picked);
    for (int64_t d = 0; d < index->dim(); ++d) {
      at::Tensor places =
          make_fake(meta_tensor({hint}, at::kLong), index->device(), call.recorder.shared_from_this(), nullptr);
      as_fake(places)->set_layout({{picked}, {Dim(1)}, 0});
      indices.push_back(places);
    }
  }
  std::vector<IValue> args{call.args[0], indices}, on_meta{traced_meta(call.tensor(0)), IValue()};
  c10::List<std::optional<at::Tensor>> metas;
  for (const std::optional<at::Tensor>& index : args[1].toOptionalTensorVector())
    metas.push_back(index ? std::optional(traced_meta(*index)) : std::nullopt);
  on_meta[1] = metas;
  const std::vector<IValue> results = infer_shapes(call.plan, on_meta, args, call.tensor(0).device());
  for (SymbolicLayout& layout : symbolic_results(call.plan, args, results, *call.recorder.symbols))
    call.results.emplace_back(std::move(layout), call.tensor(0).scalar_type());
  return true;
}

constexpr struct {
  std::string_view op;
  bool (*describe)(DataCall&);
} kRows[] = {
    {"aten::nonzero", nonzero},
    {"aten::masked_select", masked_select},
    {"aten::_unique2", unique2},
    {"aten::unique_consecutive", unique_consecutive},
    {"aten::unique_dim", unique_dim},
    {"aten::repeat_interleave.Tensor", repeat_interleave},
    {"aten::index.Tensor", index_by_mask},
};

// An int is a symbol. What else a tensor may hold has none.
bool read_number(DataCall& call, Stack* stack, size_t base) {
  const at::Tensor& tensor = call.tensor(0);
  if (!c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) return false;
  if (elements(call.sizes(0)) != Dim(1)) return false;
  const std::string key = fmt::format("number of {}", static_cast<const void*>(as_fake(tensor)->value()));
  auto [found, is_new] = call.recorder.data_sizes.try_emplace(key);
  if (is_new) {
    found->second = call.recorder.symbols->add_data(INT64_MIN);
    Node* node = call.recorder.add_node(call.plan, call.args);
    node->add_output(data_number_type(found->second));
    node->returns.push_back({});
  }
  stack->resize(base);
  stack->emplace_back(at::Scalar(call.recorder.symbols->sym_int(found->second)));
  return true;
}

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// What a tensor holds, as an operator takes a number.
at::Tensor number(const at::Tensor& tensor, bool as_number) {
  const at::ScalarType given = tensor.scalar_type();
  const at::ScalarType dtype = c10::isFloatingType(given) ? at::kDouble : given == at::kBool ? at::kBool : at::kLong;
  at::Tensor made = tensor.detach().to(at::kCPU, dtype, /*non_blocking=*/false, /*copy=*/true);
  made = made.reshape(at::IntArrayRef());
  if (as_number) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

// Python raises an error here; where the program runs as it is, it does.
at::Tensor divisor(const at::Tensor& number) {
  if (number.item().toDouble() == 0) throw DataMismatch("a number that is divided by is not zero");
  return number;
}

}  // namespace

at::Tensor data_result(Recorder& recorder, Node* node, const SymbolicLayout& layout, at::ScalarType dtype,
                       c10::Device device) {
  const OutsideTrace outside;
  std::vector<int64_t> sizes, strides;
  for (const Dim& size : layout.sizes) sizes.push_back(recorder.symbols->hint(size));
  for (const Dim& stride : layout.strides) strides.push_back(recorder.symbols->hint(stride));
  at::Tensor fake = make_fake(meta_tensor(sizes, strides, dtype), device, recorder.shared_from_this(), nullptr);
  as_fake(fake)->set_layout(layout);
  as_fake(fake)->set_value(recorder.add_value(node, fake));
  node->returns.push_back({});
  return fake;
}

bool record_data_op(const OpPlan& plan, Recorder& recorder, Stack* stack, size_t base) {
  // A backward has the symbols of its forward, and finds out no others.
  const bool backward = recorder.phase == Phase::Backward;
  const size_t known = recorder.symbols->origins().size();
  DataCall call{plan, recorder, c10::ArrayRef<IValue>(stack->data() + base, plan.argument_count)};
  for (const IValue& arg : call.args) {
    if (arg.isTensor() && !as_fake(arg.toTensor())) return false;
  }
  const std::string name = toString(plan.op.operator_name());
  if (name == "aten::_local_scalar_dense")
    return !backward && recorder.takes_data_numbers && read_number(call, stack, base);
  if (!recorder.takes_data_sizes) return false;
  for (const auto& row : kRows) {
    if (row.op != name) continue;
    if (!row.describe(call) || (backward && recorder.symbols->origins().size() > known)) return false;
    Node* node = recorder.add_node(plan, call.args);
    std::vector<IValue> made;
    for (const auto& [layout, dtype] : call.results)
      made.emplace_back(data_result(recorder, node, layout, dtype, call.tensor(0).device()));
    stack->resize(base);
    for (IValue& result : made) stack->push_back(std::move(result));
    return true;
  }
  return false;
}

namespace {

// The result of an operator of ours on one number.
at::Tensor record_on_number(const c10::OperatorHandle& op, const at::Tensor& tensor, std::vector<IValue> rest,
                            bool as_number) {
  if (at::functionalization::impl::isFunctionalTensor(tensor)) at::functionalization::impl::sync(tensor);
  FakeTensorImpl* fake = as_fake_inside(tensor);
  FS_CHECK(fake, "a number that is no value of the trace");
  Recorder& recorder = fake->recorder();
  const at::ScalarType given = tensor.scalar_type();
  const at::ScalarType dtype = c10::isFloatingType(given) ? at::kDouble : given == at::kBool ? at::kBool : at::kLong;
  const OutsideTrace outside;
  rest.insert(rest.begin(), at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(fake)));
  Node* node = recorder.add_node(*plan_of(op), rest);
  Value* value = node->add_output(Type::tensor(dtype, at::kCPU, {}, {}));
  node->returns.push_back({});
  at::Tensor meta = meta_tensor({}, dtype);
  if (as_number) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  at::Tensor made =
      at::functionalization::impl::to_functional_tensor(make_fake(meta, at::kCPU, recorder.shared_from_this(), value));
  if (as_number) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

}  // namespace

at::Tensor traced_number(const at::Tensor& tensor, bool as_number) {
  static const c10::OperatorHandle op = operator_named("firesteel::number");
  return record_on_number(op, tensor, {as_number}, as_number);
}

at::Tensor traced_divisor(const at::Tensor& number) {
  static const c10::OperatorHandle op = operator_named("firesteel::divisor");
  return record_on_number(op, number, {}, false);
}

at::Tensor traced_number(const Dim& dim, at::ScalarType dtype) {
  return at::scalar_tensor(at::Scalar(trace_symbols()->sym_int(dim)), at::TensorOptions().dtype(dtype));
}

void DataMismatch::raise() const {
  if (cause_) std::rethrow_exception(cause_);
  FS_RAISE(DataDependentError,
           "the compiled code takes for granted that {}, and for this data that is not so\n"
           "  why: the program cannot be run as it is instead, as the graph has called functions of the user's\n"
           "  try: torch._check() to say what always holds, or drop fullgraph=True",
           what());
}

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def("number(Tensor tensor, bool as_number) -> Tensor",
              torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(number)));
  library.def("divisor(Tensor number) -> Tensor",
              torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(divisor)));
}

}  // namespace firesteel
