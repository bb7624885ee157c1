// The order in which groups and the nodes left over run.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fuse/fusion.h"
#include "fuse/unit_graph.h"

namespace firesteel {
namespace {

using Unit = UnitGraph::Unit;

// Pure nodes that nothing reads once the groups read through views and constants by themselves.
std::unordered_set<const Node*> unread_nodes(const Graph& graph,
                                             const std::unordered_map<const Node*, const FusedGroup*>& group_of) {
  std::unordered_set<const Value*> read;
  auto mark = [&](const Value* value) { read.insert(value); };
  for (const Arg& result : graph.outputs) result.each_value(mark);
  for (const Mutation& mutation : graph.mutations) mark(mutation.updated);
  for (const auto& [node, group] : group_of) {
    for (const Value* input : group->inputs) mark(input);
  }
  std::unordered_set<const Node*> unread;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    if (group_of.contains(&node)) continue;
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](const auto& value) { return read.contains(value.get()); });
    if (!is_read && node.op.is_aten() && op_facts(*node.op.aten).is_pure) {
      unread.insert(&node);
    } else {
      node.each_input(mark);
    }
  }
  return unread;
}

}  // namespace

std::vector<FusedStep> schedule(const Graph& graph, std::span<const FusedGroup* const> groups) {
  std::unordered_map<const Node*, const FusedGroup*> group_of;
  for (const FusedGroup* group : groups) {
    for (const Node* node : group->nodes) group_of.emplace(node, group);
  }
  const std::unordered_set<const Node*> unread = unread_nodes(graph, group_of);
  UnitGraph units;
  std::unordered_map<const FusedGroup*, Unit> unit_of_group;
  Unit last_effect = UnitGraph::kNone;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (unread.contains(&node)) continue;
    if (auto found = group_of.find(&node); found != group_of.end()) {
      auto [known, is_new] = unit_of_group.emplace(found->second, UnitGraph::kNone);
      if (is_new) {
        known->second = units.add(node, i);
      } else {
        units.join(known->second, node, i);
      }
    } else {
      const Unit unit = units.add(node, i);
      if (!node.op.is_aten() || !op_facts(*node.op.aten).is_pure) {
        units.depend(unit, last_effect);
        last_effect = unit;
      }
    }
  }
  for (const auto& node : graph.nodes) {
    if (unread.contains(node.get())) continue;
    const Unit unit = units.unit_of(node.get());
    auto depend_on = [&](const Value* value) { units.depend(unit, units.unit_of(value->def)); };
    if (auto found = group_of.find(node.get()); found != group_of.end()) {
      if (node.get() == found->second->nodes.front()) {
        for (const Value* input : found->second->inputs) depend_on(input);
      }
    } else {
      node->each_input(depend_on);
    }
  }
  std::vector<FusedStep> steps;
  for (Unit unit : units.ordered()) {
    const Node* node = units.nodes(unit).front();
    auto found = group_of.find(node);
    steps.push_back(found == group_of.end() ? FusedStep{node, nullptr} : FusedStep{nullptr, found->second});
  }
  return steps;
}

}  // namespace firesteel
