// Purity of single calls.
#include "graph/passes/purity.h"

#include "graph/data_symbols.h"

namespace firesteel {
namespace {

bool is_false(const Arg* arg) {
  return arg && arg->kind == Arg::Kind::Const && arg->constant.isBool() && !arg->constant.toBool();
}

// Batch normalization updates its running statistics, but not in evaluation, nor where there are none.
bool updates_statistics(const Node& node) {
  for (std::string_view flag : {"training", "train", "use_input_stats"}) {
    if (is_false(find_arg(node, flag))) return false;
  }
  const Arg* mean = find_arg(node, "running_mean");
  return !mean || mean->kind != Arg::Kind::None;
}

}  // namespace

const Arg* find_arg(const Node& node, std::string_view name) {
  if (!node.op.is_aten()) return nullptr;
  auto index = node.op.aten->schema().argumentIndexWithName(name);
  return index && static_cast<size_t>(*index) < node.args.size() ? &node.args[*index] : nullptr;
}

bool is_aten_op(const Node& node, std::string_view name) {
  if (!node.op.is_aten()) return false;
  std::string_view full = node.op.aten->operator_name().name;
  return full.starts_with("aten::") && full.substr(6) == name;
}

bool writes(const Node& node) {
  if (!node.op.is_aten()) return true;
  if (!op_facts(*node.op.aten).is_mutable) return false;
  return node.op.aten->schema().is_mutable() || updates_statistics(node);
}

bool is_pure(const Node& node) {
  // What finds out a symbol is needed by all that mention it.
  if (!node.op.is_aten() || !data_symbols_of(node).empty()) return false;
  const OpFacts facts = op_facts(*node.op.aten);
  // A write that the schema hides and this call does not make leaves the call pure.
  return facts.is_pure || (facts.is_mutable && !facts.is_random && !writes(node));
}

bool is_functional(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (writes(*node)) return false;
  }
  return true;
}

}  // namespace firesteel
