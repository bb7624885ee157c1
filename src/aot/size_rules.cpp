// The table of size rules, and what is done with their answers.
#include "aot/size_rules.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include <ATen/core/enum_tag.h>

#include "aot/ivalue_tensors.h"
#include "aot/sizes/sizes.h"
#include "aot/symbolic_layouts.h"
#include "base/error.h"
#include "graph/data_symbols.h"

namespace firesteel {
namespace {

using c10::IValue;

SizeRule find_size_rule(const c10::OperatorHandle& op) {
  static const auto* table = [] {
    auto* rules = new std::unordered_map<std::string_view, SizeRule>();
    for (c10::ArrayRef<SizeRuleEntry> group : {view_sizes(), reduction_sizes(), linear_sizes(), indexing_sizes(),
                                               factory_sizes(), layer_sizes(), window_sizes()}) {
      for (const SizeRuleEntry& entry : group)
        FS_CHECK(rules->emplace(entry.op, entry.rule).second, "{} has two size rules", entry.op);
    }
    return rules;
  }();
  const c10::FunctionSchema& schema = op.schema();
  const std::string name =
      schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  auto found = table->find(name);
  if (found != table->end()) return found->second;
  const auto& tags = op.getTags();
  return std::find(tags.begin(), tags.end(), at::Tag::pointwise) != tags.end() ? &broadcast_sizes : nullptr;
}

std::mutex g_settled_mutex;
std::map<std::string, uint64_t> g_settled;

void settle(const OpPlan& plan, c10::ArrayRef<IValue> args, Symbols& symbols) {
  {
    std::lock_guard lock(g_settled_mutex);
    ++g_settled[toString(plan.op.operator_name())];
  }
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      FakeTensorImpl* fake = as_fake(tensor);
      if (!fake || !fake->layout()) return;
      for (const auto* dims : {&fake->layout()->sizes, &fake->layout()->strides}) {
        for (const Dim& dim : *dims) symbols.specialise(dim);
      }
      symbols.specialise(fake->layout()->offset);
    });
    if (arg.isSymInt()) symbols.specialise(dim_of(arg.toSymInt()));
    if (arg.isSymIntList()) {
      for (const c10::SymInt& item : arg.toSymIntVector()) symbols.specialise(dim_of(item));
    }
  }
}

bool is_traced_layout(const Symbols& symbols, const std::vector<Dim>& dims, at::IntArrayRef traced) {
  if (dims.size() != traced.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (symbols.hint(dims[i]) != traced[i]) return false;
  }
  return true;
}

// A result with gaps in memory has them because an argument does.
bool lies_as_argument(SizeCall& call, SymbolicLayout& layout, const at::Tensor& traced) {
  for (const IValue& arg : call.args) {
    if (!arg.isTensor() || !arg.toTensor().defined()) continue;
    const SymbolicLayout like = layout_of(arg.toTensor());
    if (like.sizes != layout.sizes || traced_meta(arg.toTensor()).strides() != traced.strides()) continue;
    layout.strides = like.strides;
    return true;
  }
  return false;
}

// The layout of a new tensor: dense, with its dimensions in the order that the traced one has.
bool lay_out(SizeCall& call, SymbolicLayout& layout, const at::Tensor& traced) {
  if (!layout.strides.empty() || layout.sizes.empty()) return true;
  if (!traced.is_non_overlapping_and_dense()) return lies_as_argument(call, layout, traced);
  layout.strides = traced.is_contiguous() ? contiguous_strides(layout.sizes)
                                          : dense_strides(layout.sizes, traced.sizes(), traced.strides());
  for (Dim& stride : layout.strides) stride = call.simple(stride);
  // A stride that means nothing may be anything.
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (traced.sizes()[d] <= 1) layout.strides[d] = traced.strides()[d];
  }
  return true;
}

// A number that data gives may be no size at all, which torch says where the tensor is made.
void require_sizes(Symbols& symbols, const std::vector<Dim>& sizes) {
  for (const Dim& size : sizes) {
    const Relation is_size = Relation::le(0, size);
    if (mentions_data(size) && !symbols.proves(is_size)) symbols.require(is_size);
  }
}

bool answer(SizeRule rule, SizeCall& call) {
  if (!rule || !rule(call) || call.layouts.size() != call.results.size()) return false;
  for (size_t i = 0; i < call.layouts.size(); ++i) {
    SymbolicLayout& layout = call.layouts[i];
    for (Dim& size : layout.sizes) size = call.simple(size);
    const at::Tensor& traced = call.results[i];
    if (!is_traced_layout(call.symbols, layout.sizes, traced.sizes()) || !lay_out(call, layout, traced)) return false;
    if (traced.numel() > 0 && !is_traced_layout(call.symbols, layout.strides, traced.strides())) return false;
  }
  for (const SymbolicLayout& layout : call.layouts) require_sizes(call.symbols, layout.sizes);
  return true;
}

}  // namespace

Dim SizeCall::dim(size_t i) const { return args[i].isSymInt() ? dim_of(args[i].toSymInt()) : Dim(args[i].toInt()); }

std::vector<Dim> SizeCall::dims(size_t i) const {
  if (args[i].isSymIntList()) return dims_of(args[i].toSymIntVector());
  const std::vector<int64_t> numbers = args[i].toIntVector();
  return {numbers.begin(), numbers.end()};
}

int64_t SizeCall::axis(size_t i, int64_t rank) const { return c10::maybe_wrap_dim(args[i].toInt(), rank); }

bool has_symbols(c10::ArrayRef<IValue> args) {
  bool found = false;
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      FakeTensorImpl* fake = as_fake(tensor);
      found = found || (fake && fake->layout());
    });
    found = found || arg.isSymInt() || arg.isSymFloat() || arg.isSymBool() || arg.isSymIntList();
  }
  return found;
}

void put_hints(std::vector<IValue>& args) {
  auto hint = [](const c10::SymInt& size) {
    Symbols* symbols = symbols_of(size);
    const Dim dim = dim_of(size);
    return symbols ? symbols->hint(dim) : dim.number();
  };
  for (IValue& arg : args) {
    if (arg.isSymInt()) {
      arg = hint(arg.toSymInt());
    } else if (arg.isSymIntList()) {
      std::vector<int64_t> numbers;
      for (const c10::SymInt& item : arg.toSymIntVector()) numbers.push_back(hint(item));
      arg = std::move(numbers);
    } else if (arg.isSymFloat()) {
      arg = arg.toSymFloat().guard_float(__FILE__, __LINE__);
    } else if (arg.isSymBool()) {
      arg = arg.toSymBool().guard_bool(__FILE__, __LINE__);
    }
  }
}

std::vector<SymbolicLayout> symbolic_results(const OpPlan& plan, c10::ArrayRef<IValue> args,
                                             const std::vector<IValue>& results, Symbols& symbols) {
  std::vector<at::Tensor> flat;
  for (const IValue& result : results) each_tensor(result, [&](const at::Tensor& tensor) { flat.push_back(tensor); });
  if (flat.empty()) return {};
  // How a result lies follows from how the arguments do.
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      FakeTensorImpl* fake = as_fake(tensor);
      if (fake && fake->layout() && !plan.is_view) keep_order(symbols, *fake->layout());
    });
  }
  SizeCall call{args, flat, symbols, {}};
  if (answer(find_size_rule(plan.op), call)) return std::move(call.layouts);
  settle(plan, args, symbols);
  std::vector<SymbolicLayout> layouts;
  for (const at::Tensor& tensor : flat) layouts.push_back(layout_of(tensor));
  return layouts;
}

std::map<std::string, uint64_t> settled_operators() {
  std::lock_guard lock(g_settled_mutex);
  return g_settled;
}

}  // namespace firesteel
