// Builds the two graphs: each copies its nodes from the joint graph, in the joint's order, with names and sources.
#include "partition/split.h"

#include <algorithm>

#include "base/error.h"
#include "partition/layout.h"

namespace firesteel {
namespace {

using Mutated = JointFacts::Mutated;

c10::OperatorHandle aten_op(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

// One of the two graphs under construction, with the twin of each of the joint's values in it.
class Half {
 public:
  Half(const JointFacts& facts, std::string name, Phase phase)
      : facts_(facts), twins_(facts.values.size(), nullptr), phase_(phase) {
    graph.name = std::move(name);
  }

  void add_input(int32_t value, InputRole role) {
    const Value& original = *facts_.values[value].value;
    twins_[value] = graph.add_input(original.type, role, original.name);
  }

  void add_node(const Node& original) {
    Node* node = graph.add_node(original.op);
    node->args = original.args;
    for (Arg& arg : node->args) rewire(arg);
    node->kwarg_names = original.kwarg_names;
    node->returns = original.returns;
    node->source = original.source;
    node->phase = phase_;
    for (const auto& output : original.outputs) {
      Value* twin = node->add_output(output->type);
      twin->name = output->name;
      twins_[facts_.id(output.get())] = twin;
    }
  }

  // A node of our own, for a value on its way from one graph to the other.
  Value* add_call(const c10::OperatorHandle& op, std::vector<Arg> args, Type type, const std::string& name) {
    Node* node = graph.add_aten(op, std::move(args));
    node->returns = {Return{}};
    node->phase = phase_;
    Value* result = node->add_output(std::move(type));
    result->name = name;
    return result;
  }

  Value* add_copy(Value* value) {
    return add_call(aten_op("aten::clone"), {value, {}}, type_of_copy(value->type), value->name);
  }

  void add_output(const Arg& original) {
    graph.outputs.push_back(original);
    rewire(graph.outputs.back());
  }

  Value* twin(int32_t value) const {
    FS_CHECK(twins_[value] != nullptr, "{} is not defined in {}", facts_.values[value].value->name, graph.name);
    return twins_[value];
  }
  Value* twin(const Value* value) const { return twin(facts_.id(value)); }
  void set_twin(int32_t value, Value* twin) { twins_[value] = twin; }

  Graph graph;

 private:
  void rewire(Arg& arg) {
    if (arg.kind == Arg::Kind::Value) {
      const int32_t value = facts_.id(arg.value);
      // A None made by a node of the other graph needs no handing over.
      if (!twins_[value] && arg.value->type.kind == ValueKind::None)
        arg = Arg();
      else
        arg.value = twin(value);
    }
    for (Arg& item : arg.items) rewire(item);
  }

  const JointFacts& facts_;
  std::vector<Value*> twins_;
  Phase phase_;
};

// A number travels in a zero-dimensional tensor wide enough to hold it exactly.
Type carrier_type(ValueKind kind) {
  const auto dtype = kind == ValueKind::Int ? c10::kLong : kind == ValueKind::Bool ? c10::kBool : c10::kDouble;
  return Type::tensor(dtype, c10::kCPU, {}, {});
}

// The value as the forward hands it over. The mutations happen after the nodes have run, and would be seen by the
// backward in an input or in anything that shares its memory: such values are copied (or, where only sizes and strides
// change, given a tensor of their own over the same memory).
Value* handed_over(const JointFacts& facts, int32_t v, Half& forward) {
  const Value& original = *facts.values[v].value;
  Value* value = forward.twin(v);
  if (!original.type.is_tensor()) {
    if (value->def == nullptr) return value;
    const Type carrier = carrier_type(original.type.kind);
    std::vector<Arg> args = {value, Arg::of_const(carrier.dtype), {}, {}, {}};
    return forward.add_call(aten_op("aten::scalar_tensor"), std::move(args), carrier, original.name);
  }
  const Mutated change = facts.mutation_of(facts.values[v].root);
  if (change == Mutated::Data) return forward.add_copy(value);
  if (change == Mutated::Layout) return forward.add_call(aten_op("aten::alias"), {value}, original.type, original.name);
  return value;
}

Half build_forward(const JointFacts& facts, const Demand& demand) {
  const Graph& joint = facts.joint.graph;
  Half forward(facts, joint.name + "_forward", Phase::Forward);
  for (size_t i = 0; i < joint.inputs.size(); ++i) {
    if (joint.inputs[i].role == InputRole::Tangent) continue;
    forward.add_input(static_cast<int32_t>(i), joint.inputs[i].role);
    forward.graph.inputs.back().captured = joint.inputs[i].captured;
  }

  std::vector<char> needed(facts.values.size(), 0), runs(facts.nodes.size(), 0);
  for (int32_t v : demand.saved) needed[v] = true;
  for (size_t n = facts.nodes.size(); n-- > 0;) {
    const NodeFacts& node = facts.nodes[n];
    runs[n] = node.required;
    for (size_t i = 0; i < node.node->outputs.size(); ++i) runs[n] |= needed[node.first_output + i];
    if (!runs[n]) continue;
    FS_CHECK(!node.late, "the forward needs {}, which runs in the backward", node.node->op.str());
    for (int32_t input : facts.inputs(node)) needed[input] = true;
  }
  for (size_t n = 0; n < facts.nodes.size(); ++n)
    if (runs[n]) forward.add_node(*facts.nodes[n].node);

  for (size_t i = 0; i < facts.joint.forward_outputs; ++i) forward.add_output(joint.outputs[i]);
  for (Mutation mutation : joint.mutations) {
    mutation.input = forward.twin(mutation.input);
    mutation.updated = forward.twin(mutation.updated);
    forward.graph.mutations.push_back(mutation);
  }
  forward.graph.input_tree = joint.input_tree;
  return forward;
}

// The index among the forward's inputs of each of the joint's; -1 for tangents.
std::vector<int64_t> forward_input_indices(const Graph& joint) {
  std::vector<int64_t> indices;
  int64_t next = 0;
  for (const Input& input : joint.inputs) indices.push_back(input.role == InputRole::Tangent ? -1 : next++);
  return indices;
}

void copy_output_aliases(const Joint& joint, const std::vector<int64_t>& input_index, Partitioned& result) {
  const std::vector<OutputAlias>& aliases = joint.graph.output_aliases;
  if (aliases.empty()) return;
  std::vector<OutputAlias>& copied = result.forward.output_aliases;
  copied.assign(aliases.begin(),
                aliases.begin() + static_cast<ptrdiff_t>(std::min(aliases.size(), joint.forward_outputs)));
  copied.resize(joint.forward_outputs);
  for (OutputAlias& alias : copied)
    if (alias.kind == OutputAlias::Kind::IsInput || alias.kind == OutputAlias::Kind::ViewOfInput)
      alias.of = static_cast<int32_t>(input_index.at(alias.of));
  for (int64_t input : result.saved_input)
    copied.push_back(input < 0 ? OutputAlias{} : OutputAlias{OutputAlias::Kind::IsInput, static_cast<int32_t>(input)});
}

// The backward's nodes in the order to run: late ones as recorded, each after those it is the first to want of the ones
// computed again, so that these live no longer than they must. In-place writes pin everything to the recorded order.
std::vector<int32_t> backward_order(const JointFacts& facts, const Demand& demand) {
  std::vector<int32_t> order;
  std::vector<char> placed(facts.nodes.size(), 0);
  auto place = [&](int32_t n) {
    std::vector<int32_t> wanted = {n}, found;
    placed[n] = true;
    while (!wanted.empty()) {
      const NodeFacts& node = facts.nodes[wanted.back()];
      found.push_back(wanted.back());
      wanted.pop_back();
      for (int32_t input : facts.inputs(node)) {
        const int32_t def = facts.values[input].def;
        if (def < 0 || !demand.nodes[def] || placed[def]) continue;
        placed[def] = true;
        wanted.push_back(def);
      }
    }
    std::sort(found.begin(), found.end());
    order.insert(order.end(), found.begin(), found.end());
  };
  for (size_t n = 0; n < facts.nodes.size(); ++n)
    if (demand.nodes[n] && !placed[n] && (facts.nodes[n].late || !facts.writes.empty())) place(static_cast<int32_t>(n));
  for (size_t n = 0; n < facts.nodes.size(); ++n)  // early values that are gradients themselves
    if (demand.nodes[n] && !placed[n]) place(static_cast<int32_t>(n));
  return order;
}

}  // namespace

Partitioned split(const JointFacts& facts, const Choice& choice) {
  const Graph& joint = facts.joint.graph;
  const Demand demand = demand_of(facts, choice);
  const std::vector<int64_t> input_index = forward_input_indices(joint);
  Half forward = build_forward(facts, demand);
  Half backward(facts, joint.name + "_backward", Phase::Backward);
  Partitioned result;

  for (int32_t v : demand.saved) {
    Value* saved = handed_over(facts, v, forward);
    forward.graph.outputs.emplace_back(saved);
    result.saved_input.push_back(saved->def == nullptr ? input_index[v] : -1);
    backward.add_input(v, InputRole::Saved);
    if (saved->type.is_tensor()) backward.graph.inputs.back().value->type = saved->type;
  }
  for (size_t i = 0; i < joint.inputs.size(); ++i)
    if (joint.inputs[i].role == InputRole::Tangent) backward.add_input(static_cast<int32_t>(i), InputRole::Tangent);

  for (int32_t v : demand.saved) {
    const Value& original = *facts.values[v].value;
    Value* saved = backward.twin(v);
    if (!original.type.is_tensor() && saved->type.is_tensor()) {
      backward.set_twin(v,
                        backward.add_call(aten_op("aten::_local_scalar_dense"), {saved}, original.type, original.name));
    } else if (facts.is_written_late(v)) {
      // The backward may run more than once, and what is saved may be the caller's: it writes to a copy.
      FS_CHECK(facts.values[v].root == v, "{} shares memory that the backward writes to", original.name);
      backward.set_twin(v, backward.add_copy(saved));
    }
  }
  for (int32_t n : backward_order(facts, demand)) backward.add_node(*facts.nodes[n].node);
  for (size_t i = facts.joint.forward_outputs; i < joint.outputs.size(); ++i) backward.add_output(joint.outputs[i]);

  result.forward = std::move(forward.graph);
  result.backward = std::move(backward.graph);
  result.forward_outputs = facts.joint.forward_outputs;
  copy_output_aliases(facts.joint, input_index, result);
  return result;
}

}  // namespace firesteel
