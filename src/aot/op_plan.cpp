// Works out what tracing needs to know of an operator, and finds torch's own C++ shape kernels.
#include "aot/op_plan.h"

#include <shared_mutex>
#include <unordered_map>

#include <ATen/core/enum_tag.h>

#include "aot/ivalue_tensors.h"
#include "graph/graph.h"

namespace firesteel {
namespace {

using c10::DispatchKey;

// After `import torch`, Python shape kernels shadow 637 of the C++ ones, at 20 to 4,000 µs a call instead of 1 µs. The
// dispatcher keeps the older kernels in a private list; an explicit instantiation may name private members.
template <class Tag, auto Member>
struct Expose {
  friend constexpr auto exposed(Tag) { return Member; }
};
struct EntryOfHandle {
  friend constexpr auto exposed(EntryOfHandle);
};
struct KernelsOfEntry {
  friend constexpr auto exposed(KernelsOfEntry);
};
template struct Expose<EntryOfHandle, &c10::OperatorHandle::operatorDef_>;
template struct Expose<KernelsOfEntry, &c10::impl::OperatorEntry::kernels_>;

std::optional<c10::KernelFunction> find_cpp_meta(const c10::OperatorHandle& op) {
  const auto& kernels = (op.*exposed(EntryOfHandle{}))->op.*exposed(KernelsOfEntry{});
  auto found = kernels.find(DispatchKey::Meta);
  if (found == kernels.end()) return std::nullopt;
  for (const auto& annotated : found->second) {
    const bool is_python = annotated.debug.find(".py:") != std::string::npos || !annotated.inferred_function_schema;
    if (!is_python && annotated.kernel.isValid() && !annotated.kernel.isFallthrough()) return annotated.kernel;
  }
  return std::nullopt;
}

bool has_mask(c10::ArrayRef<c10::IValue> args) {
  bool found = false;
  each_tensor(args[1], [&](const at::Tensor& index) {
    found = found || index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
  });
  return found;
}
bool lacks_output_size(c10::ArrayRef<c10::IValue> args) { return args[1].isNone(); }
bool never(c10::ArrayRef<c10::IValue>) { return false; }

// Operators that torch marks as depending on data for all calls, though most do not.
constexpr struct {
  std::string_view op;
  bool (*depends_for)(c10::ArrayRef<c10::IValue>);
} kSometimesDependent[] = {
    {"aten::index.Tensor", has_mask},
    {"aten::repeat_interleave.Tensor", lacks_output_size},
    {"aten::_ctc_loss", never},
};

bool has_tag(const c10::OperatorHandle& op, at::Tag tag) {
  const auto& tags = op.getTags();
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

}  // namespace

OpPlan::OpPlan(const c10::OperatorHandle& handle) : op(handle) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  argument_count = schema.arguments().size();
  return_count = schema.returns().size();
  const std::string full_name = schema.overload_name().empty() ? name : name + "." + schema.overload_name();
  rule = find_shape_rule(full_name);
  for (const auto& entry : kSometimesDependent) {
    if (entry.op == full_name) depends_for = entry.depends_for;
  }
  cpp_meta = find_cpp_meta(op);
  composite_implicit = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
  // A custom operator's kernel for all devices does its real work: it is not to be run for shapes.
  const bool is_aten = name.compare(0, 6, "aten::") == 0;
  is_of_user = !is_aten && name.compare(0, 7, "prims::") != 0 && name.compare(0, 11, "firesteel::") != 0;
  composite_explicit = is_aten && op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) &&
                       !op.hasKernelForDispatchKey(DispatchKey::CPU);
  has_any_meta =
      is_aten ? op.hasComputedKernelForDispatchKey(DispatchKey::Meta) : op.hasKernelForDispatchKey(DispatchKey::Meta);
  data_dependent = has_tag(op, at::Tag::data_dependent_output) || has_tag(op, at::Tag::dynamic_output_shape);
  is_random = has_tag(op, at::Tag::nondeterministic_seeded);
  is_lift = name == "aten::lift_fresh" || name == "aten::lift_fresh_copy" || name == "aten::lift";
  is_mutable = schema.is_mutable();
  for (const c10::Argument& result : schema.returns())
    is_view = is_view || (result.alias_info() && !result.alias_info()->isWrite());
  is_view = is_view && !is_lift && !composite_implicit;
  for (size_t i = 0; i < argument_count; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.name() == "device") device_argument = static_cast<int>(i);
    if (argument.alias_info() && argument.alias_info()->isWrite()) written_arguments.push_back(static_cast<uint8_t>(i));
  }
}

c10::DispatchKeySet OpPlan::keys_for(const torch::jit::Stack* stack) const {
  return (op.*exposed(EntryOfHandle{}))->op.dispatchKeyExtractor().getDispatchKeySetBoxed(stack);
}

std::shared_ptr<const OpPlan> plan_of(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static std::unordered_map<c10::OperatorHandle, std::shared_ptr<const OpPlan>> plans;
  if (!is_of_torch(op)) return std::make_shared<const OpPlan>(op);
  {
    std::shared_lock lock(mutex);
    auto found = plans.find(op);
    if (found != plans.end()) return found->second;
  }
  auto plan = std::make_shared<const OpPlan>(op);
  std::unique_lock lock(mutex);
  return plans.emplace(op, std::move(plan)).first->second;
}

}  // namespace firesteel
