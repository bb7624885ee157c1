// Dead code: one sweep from the end marks what is needed.
#include "graph/passes/dead_code.h"

#include <unordered_set>

#include "graph/passes/purity.h"

namespace firesteel {

bool dead_code(Graph& graph) {
  std::unordered_set<const Value*> used;
  auto use = [&](const Value* value) { used.insert(value); };
  for (const Arg& output : std::as_const(graph.outputs)) output.each_value(use);
  for (const Mutation& mutation : graph.mutations) use(mutation.updated);

  std::unordered_set<const Node*> dead;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    bool needed = !is_pure(node);
    for (const auto& output : node.outputs) needed = needed || used.count(output.get());
    if (needed) {
      node.each_input(use);
    } else {
      dead.insert(&node);
    }
  }
  if (dead.empty()) return false;
  graph.erase_nodes([&](const Node& node) { return dead.count(&node) > 0; });
  return true;
}

}  // namespace firesteel
