// The two simple choices (None, Cheap), and what a choice asks the forward to save.
#include "partition/choice.h"

#include "base/error.h"

namespace firesteel {

Demand demand_of(const JointFacts& facts, const Choice& choice) {
  Demand demand;
  demand.nodes.resize(facts.nodes.size(), 0);
  std::vector<char> needed(facts.values.size(), 0);
  const std::vector<Arg>& outputs = facts.joint.graph.outputs;
  for (size_t i = facts.joint.forward_outputs; i < outputs.size(); ++i)
    outputs[i].each_value([&](const Value* value) { needed[facts.id(value)] = true; });

  for (size_t n = facts.nodes.size(); n-- > 0;) {
    const NodeFacts& node = facts.nodes[n];
    if (!choice[n]) continue;
    bool wanted = node.late && !node.pure;  // draws and writes happen, whoever looks at them
    for (size_t i = 0; i < node.node->outputs.size(); ++i) wanted |= needed[node.first_output + i] != 0;
    if (!wanted) continue;
    demand.nodes[n] = true;
    for (int32_t input : facts.inputs(node)) needed[input] = true;
  }
  for (size_t v = 0; v < facts.values.size(); ++v) {
    const ValueFacts& value = facts.values[v];
    const bool computed = value.def >= 0 && choice[value.def];
    if (!needed[v] || value.late || computed || value.value->type.kind == ValueKind::None) continue;
    FS_CHECK(value.savable, "{} is no tensor, and what makes it must not run twice", value.value->name);
    demand.saved.push_back(static_cast<int32_t>(v));
  }
  return demand;
}

// As eager does: what was recorded in the backward runs there, and what it reads is saved. Views are replayed on their
// base in every mode: that costs nothing, and a view would keep all of its base alive anyway.
Choice choose_direct(const JointFacts& facts) {
  Choice choice(facts.nodes.size(), 0);
  for (size_t n = 0; n < facts.nodes.size(); ++n) {
    const NodeFacts& node = facts.nodes[n];
    const bool only_backward = node.repeatable && !node.required && node.node->phase == Phase::Backward;
    choice[n] = node.late || node.moved || only_backward;
  }
  return choice;
}

// Drops a saved value where a cheap operator gives it from what is there anyway. In graph order, so that a value
// computed again can serve the next one; nothing new is ever saved.
Choice choose_cheap(const JointFacts& facts) {
  Choice choice = choose_direct(facts);
  const Demand demand = demand_of(facts, choice);
  std::vector<char> saved(facts.values.size(), 0), available(facts.values.size(), 0);
  for (int32_t v : demand.saved) saved[v] = true;
  for (size_t v = 0; v < facts.values.size(); ++v) available[v] = saved[v] || facts.values[v].free;

  for (size_t n = 0; n < facts.nodes.size(); ++n) {
    const NodeFacts& node = facts.nodes[n];
    bool inputs_available = true;
    for (int32_t input : facts.inputs(node)) inputs_available &= available[input] != 0;
    if (node.late || !inputs_available) continue;
    bool saves_something = false, is_result = false;
    for (size_t i = 0; i < node.node->outputs.size(); ++i) {
      saves_something |= saved[node.first_output + i] != 0;
      is_result |= facts.values[node.first_output + i].forward_output;  // kept alive by the caller as it is
    }
    if (node.repeatable && node.op_class <= OpClass::Cheap && saves_something && !is_result) choice[n] = true;
    if (choice[n])
      for (size_t i = 0; i < node.node->outputs.size(); ++i) available[node.first_output + i] = true;
  }
  return choice;
}

}  // namespace firesteel
