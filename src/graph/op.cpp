// Operators: their names in graph text, and the facts of them that passes ask for.
#include <algorithm>
#include <array>

#include <c10/util/flat_hash_map.h>

#include "graph/graph.h"

namespace firesteel {
namespace {

// Operators that do something besides computing their results, though their schemas do not say so.
constexpr auto kSideEffects = std::to_array<std::string_view>({
    "aten::_assert_async",
    "aten::_assert_scalar",
    "aten::_assert_tensor_metadata",
    "aten::_functional_assert_async",
    "aten::_functional_assert_scalar",
    "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size",
    "aten::_print",
    "aten::manual_seed",
    "aten::seed",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
    "firesteel::divisor",
});

// Whole namespaces that talk to other processes or to the profiler.
constexpr auto kSideEffectNamespaces = std::to_array<std::string_view>({
    "_c10d_functional",
    "_dtensor",
    "c10d",
    "c10d_functional",
    "profiler",
    "rpc",
});

// Normalizations that update running statistics although their schemas name no write.
constexpr auto kHiddenWrites = std::to_array<std::string_view>({
    "aten::_batch_norm_impl_index",
    "aten::batch_norm",
    "aten::batch_norm_gather_stats",
    "aten::cudnn_batch_norm",
    "aten::instance_norm",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::miopen_batch_norm",
    "aten::native_batch_norm",
});

// Operators that hand back their argument's memory although their schemas name no alias.
constexpr auto kHiddenViews =
    std::to_array<std::string_view>({"aten::_unsafe_view", "aten::lift", "aten::_reshape_alias"});

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool mentions(const c10::TypePtr& type, c10::TypeKind kind) {
  if (type->kind() == kind) return true;
  auto contained = type->containedTypes();
  return std::any_of(contained.begin(), contained.end(),
                     [&](const c10::TypePtr& inner) { return mentions(inner, kind); });
}

OpFacts compute_facts(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  std::string_view name = schema.name();
  OpFacts facts;
  facts.is_mutable = schema.is_mutable() || contains(kHiddenWrites, name);
  facts.is_view = contains(kHiddenViews, name);
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() && !result.alias_info()->isWrite()) facts.is_view = true;
  }
  facts.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  bool takes_object = false;
  for (const c10::Argument& argument : schema.arguments()) {
    if (mentions(argument.type(), c10::TypeKind::GeneratorType)) facts.is_random = true;
    if (mentions(argument.type(), c10::TypeKind::ClassType)) takes_object = true;  // may hold and change any state
  }
  bool silent = schema.returns().empty() || takes_object || contains(kSideEffects, name) ||
                contains(kSideEffectNamespaces, name.substr(0, name.find("::")));
  facts.is_pure = !facts.is_mutable && !facts.is_random && !silent;
  return facts;
}

}  // namespace

bool is_of_torch(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  const std::string_view space = name.substr(0, name.find("::"));
  return space == "aten" || space == "prims" || space == "mkldnn" || space == "firesteel";
}

OpFacts op_facts(const c10::OperatorHandle& op) {
  thread_local ska::flat_hash_map<c10::OperatorHandle, OpFacts> seen;  // the thread's own: no lock
  if (!is_of_torch(op)) return compute_facts(op);
  const auto found = seen.find(op);
  return found != seen.end() ? found->second : seen.emplace(op, compute_facts(op)).first->second;
}

std::string Op::str() const {
  if (!aten) return name;
  const c10::OperatorName& full = aten->operator_name();
  std::string text = full.name;
  size_t colons = text.find("::");
  if (colons != std::string::npos) text.replace(colons, 2, ".");
  if (!full.overload_name.empty()) {
    text += '.';
    text += full.overload_name;
  }
  return text;
}

bool operator==(const Op& a, const Op& b) {
  if (a.is_aten() || b.is_aten()) return a.is_aten() && b.is_aten() && *a.aten == *b.aten;
  return a.name == b.name && a.callee == b.callee;
}

}  // namespace firesteel
