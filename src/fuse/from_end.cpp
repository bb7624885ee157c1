// Finds sums between two flips.
#include "fuse/from_end.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "graph/passes/dead_code.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

std::optional<int64_t> place_of(int64_t dim, const Value* value) {
  const auto rank = static_cast<int64_t>(value->type.sizes.size());
  return rank == 0 ? std::nullopt : std::optional(dim < 0 ? dim + rank : dim);
}

// The one dimension that a node flips.
std::optional<int64_t> flipped(const Node* node) {
  if (!node || !node->op.is_aten() || !is_aten_op(*node, "flip") || node->args[0].kind != Arg::Kind::Value ||
      node->args[1].kind != Arg::Kind::Const || !node->args[1].constant.isIntList())
    return std::nullopt;
  const std::vector<int64_t> dims = node->args[1].constant.toIntVector();
  return dims.size() == 1 ? place_of(dims[0], node->args[0].value) : std::nullopt;
}

// The values that the sum between the flips is of, and along which dimension.
struct Found {
  Value* value;
  int64_t dim;
};
std::optional<Found> flipped_sum(const Node& node) {
  const std::optional<int64_t> dim = flipped(&node);
  if (!dim) return std::nullopt;
  const Node* sum = node.args[0].value->def;
  if (!sum || !sum->op.is_aten() || sum->op.str() != "aten.cumsum" || sum->args[0].kind != Arg::Kind::Value ||
      sum->args[1].kind != Arg::Kind::Const || place_of(sum->args[1].constant.toInt(), sum->args[0].value) != dim)
    return std::nullopt;
  const Node* first = sum->args[0].value->def;
  if (flipped(first) != dim) return std::nullopt;
  Value* value = first->args[0].value;
  const Type &from = value->type, &to = node.outputs[0]->type;
  if (from.dtype != to.dtype || from.strides != to.strides) return std::nullopt;
  return Found{value, *dim};
}

}  // namespace

bool join_flipped_sums(Graph& graph) {
  if (!is_functional(graph)) return false;
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::cumsum_from_end", "");
  bool changed = false;
  for (const auto& node : graph.nodes) {
    const std::optional<Found> found = flipped_sum(*node);
    if (!found) continue;
    node->op.aten = op;
    node->args = {found->value, Arg::of_const(found->dim)};
    changed = true;
  }
  if (changed) dead_code(graph);
  return changed;
}

}  // namespace firesteel
