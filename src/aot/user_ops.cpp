// Records operators of the user's whose results have sizes that data gives, as their own shape functions tell.
#include <ATen/ops/empty_strided.h>

#include "aot/data_ops.h"
#include "aot/dispatch_keys.h"
#include "aot/ivalue_tensors.h"
#include "aot/recorder.h"
#include "aot/size_rules.h"
#include "aot/symbols.h"

namespace firesteel {
namespace {

using c10::IValue;

ShapeFunction& shape_function() {
  static auto* function = new ShapeFunction();
  return *function;
}

// On the meta device, with the symbols that its sizes have.
at::Tensor symbolic_meta(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  if (!fake) return tensor.to(c10::kMeta);
  if (!tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return fake->meta();
  return at::empty_strided_symint(tensor.sym_sizes(), tensor.sym_strides(), tensor.options().device(c10::kMeta));
}

SymbolicLayout layout_from(const at::Tensor& meta) {
  SymbolicLayout layout{{}, {}, 0};
  for (const c10::SymInt& size : meta.sym_sizes()) layout.sizes.push_back(dim_of(size));
  for (const c10::SymInt& stride : meta.sym_strides()) layout.strides.push_back(dim_of(stride));
  return layout;
}

}  // namespace

void set_shape_function(ShapeFunction function) { shape_function() = std::move(function); }

bool record_user_op(const OpPlan& plan, Recorder& recorder, torch::jit::Stack* stack, size_t base, c10::Device device) {
  if (!shape_function() || plan.is_mutable || plan.is_view || plan.is_random) return false;
  const c10::ArrayRef<IValue> args(stack->data() + base, plan.argument_count);
  // A backward has the symbols of its forward, and finds out no others.
  const bool takes_new = recorder.takes_data_sizes && recorder.phase != Phase::Backward;
  const bool symbolic = has_symbols(args);
  if (!takes_new && !symbolic) return false;
  std::optional<std::vector<at::Tensor>> results;
  {
    const OutsideTrace outside;
    std::vector<IValue> on_meta(args.begin(), args.end());
    for (IValue& arg : on_meta) map_tensors(arg, symbolic_meta);
    const NewSize new_size = [&](int64_t least, std::optional<int64_t> most) {
      TORCH_CHECK(takes_new, plan.op.schema().name(), " has results whose sizes depend on data");
      const Dim made = recorder.symbols->add_data(least);
      if (most) recorder.symbols->know(Relation::le(made, Dim(*most)));
      return recorder.symbols->sym_int(made);
    };
    results = shape_function()(plan.op, on_meta, new_size, !symbolic);
  }
  if (!results || results->size() != plan.return_count) return false;
  Node* node = recorder.add_node(plan, args);
  std::vector<IValue> made;
  for (const at::Tensor& meta : *results)
    made.emplace_back(data_result(recorder, node, layout_from(meta), meta.scalar_type(), device));
  stack->resize(base);
  for (IValue& result : made) stack->push_back(std::move(result));
  return true;
}

}  // namespace firesteel
