// Cuts a graph in two: what depends on weights alone, and what runs at each call.
#include "freeze/freeze.h"

#include "freeze/rewriter.h"
#include "graph/passes/pass.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

// Whoever gets a result may write to it: neither it nor what it is a view of is kept from call to call.
ConstantValues given_away(const Graph& graph) {
  ConstantValues values;
  auto give = [&](const Value* value) {
    while (value && values.insert(value).second) {
      const Node* maker = value->def;
      const bool view = maker && maker->op.is_aten() && op_facts(*maker->op.aten).is_view;
      value = view && maker->args[0].kind == Arg::Kind::Value ? maker->args[0].value : nullptr;
    }
  };
  for (const Arg& output : graph.outputs) output.each_value(give);
  for (const Mutation& mutation : graph.mutations) give(mutation.updated);
  return values;
}

// What `run` reads of the constants that `prepare` computes, in order, each once.
std::vector<Value*> prepared_values(const Graph& graph) {
  const ConstantValues constants = constant_values(graph), given = given_away(graph);
  auto is_prepared = [&](const Value* value) { return value->def && constants.count(value) && !given.count(value); };
  std::vector<Value*> values;
  std::unordered_set<const Value*> seen;
  for (const auto& node : graph.nodes) {
    bool runs = false;
    for (const auto& output : node->outputs) runs = runs || !is_prepared(output.get());
    if (!runs && !node->outputs.empty()) continue;
    node->each_input([&](Value* value) {
      if (is_prepared(value) && seen.insert(value).second) values.push_back(value);
    });
  }
  return values;
}

// The place of a value among nodes: the same in a clone.
Value* counterpart(const Graph& graph, const Value* value, Graph& clone) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].get() == value->def) return clone.nodes[i]->outputs[value->index].get();
  }
  return nullptr;
}

}  // namespace

std::optional<FrozenGraph> freeze(const Graph& graph) {
  if (!is_functional(graph) || constant_values(graph).empty()) return {};
  FrozenGraph made;
  made.run = graph.clone();
  fold_norms(made.run);
  run_pass("dead_code", made.run);
  if (pack_layers(made.run)) {
    run_pass("dead_code", made.run);
    join_epilogues(made.run);
    run_pass("dead_code", made.run);
    keep_channels_last(made.run);
  }
  run_pass("dead_code", made.run);
  const std::vector<Value*> values = prepared_values(made.run);
  if (values.empty()) return {};

  made.prepare = made.run.clone();
  made.prepare.outputs.clear();
  for (const Value* value : values) made.prepare.outputs.emplace_back(counterpart(made.run, value, made.prepare));
  made.prepare.output_aliases.clear();
  made.prepare.mutations.clear();
  made.prepare.output_tree = {};
  run_pass("dead_code", made.prepare);
  for (size_t i = 0; i < made.prepare.inputs.size(); ++i) {
    bool read = false;
    for (const auto& node : made.prepare.nodes)
      node->each_input([&](const Value* value) { read = read || value == made.prepare.inputs[i].value.get(); });
    if (read) made.weights.push_back(i);
  }
  for (Value* value : values) made.run.replace_uses(value, made.run.add_input(value->type, InputRole::Saved));
  run_pass("dead_code", made.run);
  return made;
}

}  // namespace firesteel
