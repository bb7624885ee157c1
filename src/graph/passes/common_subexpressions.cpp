// Common subexpressions: a table from what a node computes to the nodes that did.
#include "graph/passes/common_subexpressions.h"

#include <bit>
#include <unordered_map>
#include <unordered_set>

#include <c10/util/hash.h>

#include "graph/passes/memory_relations.h"
#include "graph/passes/purity.h"
#include "graph/text.h"

namespace firesteel {
namespace {

// Agrees with same_constant(); kinds that are rare in a place of note hash alike.
size_t hash_constant(const c10::IValue& value) {
  if (value.isInt()) return std::hash<int64_t>()(value.toInt());
  if (value.isDouble()) return std::hash<uint64_t>()(std::bit_cast<uint64_t>(value.toDouble()));
  if (value.isBool()) return value.toBool();
  if (value.isString()) return std::hash<std::string>()(value.toStringRef());
  size_t hash = 0;
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) hash = c10::hash_combine(hash, hash_constant(item));
  }
  return hash;
}

size_t hash_arg(const Arg& arg) {
  auto hash = static_cast<size_t>(arg.kind);
  if (arg.kind == Arg::Kind::Value) hash = c10::hash_combine(hash, std::hash<const Value*>()(arg.value));
  if (arg.kind == Arg::Kind::Const) hash = c10::hash_combine(hash, hash_constant(arg.constant));
  if (arg.kind == Arg::Kind::Dim) hash = c10::hash_combine(hash, std::hash<std::string>()(arg.dim.str()));
  for (const Arg& item : arg.items) hash = c10::hash_combine(hash, hash_arg(item));
  return hash;
}

size_t hash_node(const Node& node) {
  size_t hash = std::hash<c10::OperatorHandle>()(*node.op.aten);
  for (const Arg& arg : node.args) hash = c10::hash_combine(hash, hash_arg(arg));
  return hash;
}

bool same_arg(const Arg& a, const Arg& b) {
  if (a.kind != b.kind || a.value != b.value || a.keys != b.keys || a.items.size() != b.items.size()) return false;
  if (a.kind == Arg::Kind::Dim && a.dim != b.dim) return false;
  if (a.kind == Arg::Kind::Const && !same_constant(a.constant, b.constant)) return false;
  for (size_t i = 0; i < a.items.size(); i++) {
    if (!same_arg(a.items[i], b.items[i])) return false;
  }
  return true;
}

bool computes_the_same(const Node& a, const Node& b) {
  if (!(a.op == b.op) || a.args.size() != b.args.size() || a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.args.size(); i++) {
    if (!same_arg(a.args[i], b.args[i])) return false;
  }
  for (size_t i = 0; i < a.outputs.size(); i++) {
    if (!(a.outputs[i]->type == b.outputs[i]->type)) return false;
  }
  return true;
}

bool may_merge(const Node& dropped, const Node& kept, const MemoryRelations& memory) {
  // The forward part must not come to need the backward part.
  if (kept.phase == Phase::Backward && dropped.phase == Phase::Forward) return false;
  for (size_t i = 0; i < dropped.outputs.size(); i++) {
    if (!memory.may_replace(dropped.outputs[i].get(), kept.outputs[i].get())) return false;
  }
  return true;
}

}  // namespace

bool common_subexpressions(Graph& graph) {
  if (!is_functional(graph)) return false;
  MemoryRelations memory(graph);
  Replacements replacements;
  std::unordered_multimap<size_t, Node*> computed;
  std::unordered_set<const Node*> merged;
  for (auto& node : graph.nodes) {
    replacements.apply(*node);
    if (!is_pure(*node)) continue;
    size_t hash = hash_node(*node);
    auto [first, last] = computed.equal_range(hash);
    auto twin = std::find_if(first, last, [&](const auto& entry) {
      return computes_the_same(*entry.second, *node) && may_merge(*node, *entry.second, memory);
    });
    if (twin == last) {
      computed.emplace(hash, node.get());
      continue;
    }
    for (size_t i = 0; i < node->outputs.size(); i++) {
      memory.replaced(node->outputs[i].get(), twin->second->outputs[i].get());
      replacements.add(node->outputs[i].get(), twin->second->outputs[i].get());
    }
    merged.insert(node.get());
  }
  if (merged.empty()) return false;
  replacements.apply_to_results(graph);
  graph.erase_nodes([&](const Node& node) { return merged.count(&node) > 0; });
  return true;
}

}  // namespace firesteel
