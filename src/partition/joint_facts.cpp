// Computes JointFacts: four walks over the joint graph, forward or backward, each linear.
#include "partition/joint_facts.h"

#include <algorithm>

#include "base/error.h"
#include "graph/data_symbols.h"
#include "partition/layout.h"

namespace firesteel {
namespace {

// The arguments whose memory a node's outputs share, and those it writes to, by position; from the schema, once an
// operator.
struct MemoryEffects {
  std::vector<int32_t> return_aliases;  // for each return: the argument it shares memory with, or -1
  std::vector<size_t> written;
};

bool share_a_set(const c10::AliasInfo& a, const c10::AliasInfo& b) {
  for (const auto& set : a.beforeSets())
    if (b.beforeSets().count(set)) return true;
  return false;
}

// Where ATen's schema hides a view or a write that op_facts knows of, the worst is assumed: every return shares the
// first argument's memory, every argument is written to.
MemoryEffects memory_effects(const c10::FunctionSchema& schema, const OpFacts& facts) {
  MemoryEffects effects;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].alias_info() && arguments[i].alias_info()->isWrite()) effects.written.push_back(i);
  for (const auto& result : schema.returns()) {
    int32_t alias = -1;
    for (size_t i = 0; result.alias_info() && i < arguments.size() && alias < 0; ++i)
      if (arguments[i].alias_info() && share_a_set(*arguments[i].alias_info(), *result.alias_info()))
        alias = static_cast<int32_t>(i);
    effects.return_aliases.push_back(alias);
  }
  const auto& aliases = effects.return_aliases;
  if (facts.is_view && std::all_of(aliases.begin(), aliases.end(), [](int32_t alias) { return alias < 0; }))
    effects.return_aliases.assign(schema.returns().size(), 0);
  if (facts.is_mutable && effects.written.empty())
    for (size_t i = 0; i < arguments.size(); ++i) effects.written.push_back(i);
  return effects;
}

const Value* first_value(const Arg& arg) {
  const Value* found = nullptr;
  arg.each_value([&](const Value* value) { found = found ? found : value; });
  return found;
}

}  // namespace

JointFacts::JointFacts(const Joint& joint) : joint(joint) {
  FS_CHECK(joint.forward_outputs <= joint.graph.outputs.size(), "{} forward outputs among {} outputs",
           joint.forward_outputs, joint.graph.outputs.size());
  number_values();
  find_memory();
  find_forward(/*side_effects_too=*/false);
  find_late();
  find_forward(/*side_effects_too=*/true);
  find_repeatable();
}

void JointFacts::number_values() {
  const Graph& graph = joint.graph;
  ids.reserve(graph.inputs.size() + graph.nodes.size() * 2);
  values.reserve(graph.inputs.size() + graph.nodes.size() * 2);
  auto add_value = [&](const Value* value, int32_t def) {
    const auto number = static_cast<int32_t>(values.size());
    FS_CHECK(ids.emplace(value, number).second, "value {} is defined twice", value->name);
    values.push_back({.value = value, .def = def, .root = number});
    values.back().free = value->type.kind == ValueKind::None;
    values.back().savable = value->type.kind != ValueKind::Object;
  };
  for (const Input& input : graph.inputs) {
    add_value(input.value.get(), -1);
    values.back().late = input.role == InputRole::Tangent;
    values.back().free = !values.back().late;
  }
  mutated.resize(values.size(), Mutated::No);
  nodes.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    NodeFacts facts{.node = node.get()};
    facts.first_input = static_cast<uint32_t>(inputs_of_nodes.size());
    std::as_const(*node).each_input([&](const Value* value) {
      auto found = ids.find(value);
      FS_CHECK(found != ids.end(), "{} reads a value that is not defined before it", node->op.str());
      inputs_of_nodes.push_back(found->second);
    });
    facts.input_count = static_cast<uint32_t>(inputs_of_nodes.size()) - facts.first_input;
    facts.first_output = static_cast<int32_t>(values.size());
    for (const auto& output : node->outputs) add_value(output.get(), static_cast<int32_t>(nodes.size()));
    nodes.push_back(facts);
  }
  for (const Mutation& mutation : graph.mutations) {
    const int32_t input = id(mutation.input);
    FS_CHECK(values[input].def < 0, "a mutation of {}, which is no input", mutation.input->name);
    const Mutated change = mutation.metadata_only ? Mutated::Layout : Mutated::Data;
    mutated[input] = std::max(mutated[input], change);
    values[input].free = false;
  }
}

// Operator facts, roots of shared memory, and writes in place.
void JointFacts::find_memory() {
  struct OpRecord {
    OpClass op_class;
    bool pure;
    MemoryEffects effects;
  };
  std::unordered_map<const c10::FunctionSchema*, OpRecord> records;
  for (NodeFacts& facts : nodes) {
    const Node& node = *facts.node;
    if (!node.op.is_aten()) continue;  // unknown to ATen: not pure, expensive, new memory
    const c10::FunctionSchema& schema = node.op.aten->schema();
    auto [found, is_new] = records.try_emplace(&schema);
    if (is_new) {
      const OpFacts op = op_facts(*node.op.aten);
      found->second = {classify_op(node.op), op.is_pure, memory_effects(schema, op)};
    }
    const OpRecord& record = found->second;
    facts.op_class = record.op_class;
    // What finds out a symbol is needed by all that mention it.
    facts.pure = record.pure && (node.phase == Phase::Backward || data_symbols_of(node).empty());

    int32_t output = facts.first_output;
    bool all_alias = !node.outputs.empty();
    for (size_t r = 0; r < node.returns.size(); ++r) {
      const int32_t count = node.returns[r].list_count < 0 ? 1 : node.returns[r].list_count;
      const int32_t argument = r < record.effects.return_aliases.size() ? record.effects.return_aliases[r] : -1;
      const Value* base = argument < 0 ? nullptr : first_value(node.args[argument]);
      all_alias &= base != nullptr;
      for (int32_t i = 0; i < count; ++i, ++output)
        if (base) values[output].root = values[id(base)].root;
    }
    facts.alias_only = facts.pure && all_alias;
    facts.first_write = static_cast<uint32_t>(roots_written.size());
    for (size_t argument : record.effects.written)
      std::as_const(node.args[argument]).each_value([&](const Value* v) {
        roots_written.push_back(values[id(v)].root);
      });
    facts.write_count = static_cast<uint32_t>(roots_written.size()) - facts.first_write;
  }
}

// Marks what the forward's results need (and, asked for, what early side effects need), through data and through
// memory: who reads memory needs everyone who wrote to it before.
void JointFacts::find_forward(bool side_effects_too) {
  std::vector<char> needed(values.size(), 0), needed_roots(values.size(), 0);
  auto need = [&](int32_t value) { needed[value] = needed_roots[values[value].root] = true; };
  auto need_result = [&](const Value* value) {
    values[id(value)].forward_output = true;
    need(id(value));
  };
  for (size_t i = 0; i < joint.forward_outputs; ++i) joint.graph.outputs[i].each_value(need_result);
  for (const Mutation& mutation : joint.graph.mutations) need_result(mutation.updated);

  for (size_t n = nodes.size(); n-- > 0;) {
    NodeFacts& facts = nodes[n];
    facts.required |= side_effects_too && !facts.pure && !facts.late;
    for (size_t i = 0; i < facts.node->outputs.size(); ++i) facts.required |= needed[facts.first_output + i] != 0;
    for (int32_t root : written_roots(facts)) facts.required |= needed_roots[root] != 0 && !facts.late;
    if (!facts.required) continue;
    for (int32_t input : inputs(facts)) need(input);
  }
}

// Tangents, and draws and writes recorded in the backward that no forward result needs, make a node late; so does
// reading what a late node made or wrote to.
void JointFacts::find_late() {
  for (size_t n = 0; n < nodes.size(); ++n) {
    NodeFacts& facts = nodes[n];
    facts.late = !facts.pure && facts.node->phase == Phase::Backward && !facts.required;
    for (int32_t input : inputs(facts)) facts.late |= values[input].late || is_written_late(input);
    FS_CHECK(!facts.late || !facts.required, "a forward result needs {}, which runs in the backward",
             facts.node->op.str());
    if (facts.late)
      for (size_t i = 0; i < facts.node->outputs.size(); ++i) values[facts.first_output + i].late = true;
    for (int32_t root : written_roots(facts)) {
      if (facts.late)
        writes[root].late = true;
      else
        writes[root].last_early = static_cast<int32_t>(n);
    }
  }
  for (const ValueFacts& value : values)
    FS_CHECK(!value.late || !value.forward_output, "a forward result depends on a tangent: {}", value.value->name);
}

// A pure node may run again unless memory stands in the way: what the forward writes to in place is handed over as it
// is at the end of the forward, so readers of an earlier state, and the maker of that memory, run once.
void JointFacts::find_repeatable() {
  for (size_t n = 0; n < nodes.size(); ++n) {
    NodeFacts& facts = nodes[n];
    const std::span<ValueFacts> outputs(values.data() + facts.first_output, facts.node->outputs.size());
    bool reads_past_state = false;
    if (!writes.empty() && !facts.alias_only)
      for (int32_t input : inputs(facts)) {
        auto written = writes.find(values[input].root);
        reads_past_state |= written != writes.end() && written->second.last_early > static_cast<int32_t>(n);
      }
    if (facts.late) {
      FS_CHECK(!reads_past_state, "{} in the backward reads memory that the forward writes to later",
               facts.node->op.str());
      continue;
    }
    const bool layout_bound = facts.alias_only && is_layout_bound(facts);
    facts.alias_only &= !layout_bound;
    facts.repeatable = facts.pure && !reads_past_state && !layout_bound;
    bool private_to_backward = false, unsavable = facts.alias_only;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto value = facts.first_output + static_cast<int32_t>(i);
      auto written = outputs[i].root == value ? writes.find(value) : writes.end();
      if (written != writes.end()) {
        facts.repeatable &= written->second.last_early < 0;
        private_to_backward |= written->second.late && !facts.required;
      }
      unsavable |= !outputs[i].savable;
    }
    facts.moved = facts.repeatable && (private_to_backward || unsavable);
    if (facts.moved)
      for (ValueFacts& output : outputs) output.savable = false;
  }
}

// A view of a mutated input is replayed on a copy of it, and that must not show: as_strided speaks of its base's place
// in memory, and where the copy has other strides, so would every view of it.
bool JointFacts::is_layout_bound(const NodeFacts& view) const {
  const int32_t root = values[view.first_output].root;
  if (mutation_of(root) != Mutated::Data) return false;
  const Type& type = values[root].value->type;
  return view.node->op.aten->operator_name().name == "aten::as_strided" || type_of_copy(type).strides != type.strides;
}

bool JointFacts::is_written_late(int32_t value) const {
  if (writes.empty()) return false;
  auto written = writes.find(values[value].root);
  return written != writes.end() && written->second.late;
}

}  // namespace firesteel
