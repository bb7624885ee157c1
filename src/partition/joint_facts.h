// What the partitioner knows of a joint graph before it chooses: who depends on tangents, who shares memory with whom,
// what must run in the forward, and what may run again in the backward.
//
// Nodes and values get dense numbers (values: graph inputs first, then node outputs in order), so that every later step
// works on plain arrays.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "partition/op_class.h"
#include "partition/partition.h"

namespace firesteel {

struct NodeFacts {
  const Node* node = nullptr;
  uint32_t first_input = 0, input_count = 0;  // into JointFacts::inputs_of_nodes
  uint32_t first_write = 0, write_count = 0;  // into JointFacts::roots_written
  int32_t first_output = 0;
  OpClass op_class = OpClass::Expensive;
  bool pure = false;        // no writes, no randomness, no side effect
  bool alias_only = false;  // a view and nothing else: every output shares memory with an input
  bool late = false;        // always in the backward: needs a tangent, or draws or writes there
  bool required = false;    // always in the forward: a forward output, a mutation or a side effect needs it
  bool repeatable = false;  // gives the same values when run again in the backward
  bool moved = false;       // always in the backward, though early: what it makes cannot be handed over
};

struct ValueFacts {
  const Value* value = nullptr;
  int32_t def = -1;             // the node, or -1 for an input of the graph
  int32_t root = -1;            // the value whose memory this one shares; itself where it has its own
  bool late = false;            // a tangent, or made by a late node
  bool free = false;            // the backward has it at no cost: an input that is not mutated, or None
  bool savable = false;         // may be handed from forward to backward as a tensor (or a wrapped number)
  bool forward_output = false;  // also a result of the forward, or written to an input
};

// What happens to a root's memory in place.
struct Writes {
  int32_t last_early = -1;  // the last forward node that writes to it
  bool late = false;        // some backward node writes to it
};

struct JointFacts {
  explicit JointFacts(const Joint& joint);

  std::span<const int32_t> inputs(const NodeFacts& node) const {
    return {inputs_of_nodes.data() + node.first_input, node.input_count};
  }
  std::span<const int32_t> written_roots(const NodeFacts& node) const {
    return {roots_written.data() + node.first_write, node.write_count};
  }
  int32_t id(const Value* value) const { return ids.at(value); }
  // How an input changes after the forward nodes have run; No for all other values.
  enum class Mutated : uint8_t { No, Layout, Data };
  Mutated mutation_of(int32_t value) const { return values[value].def < 0 ? mutated[value] : Mutated::No; }
  bool is_written_late(int32_t value) const;

  const Joint& joint;
  std::vector<NodeFacts> nodes;
  std::vector<ValueFacts> values;
  std::vector<int32_t> inputs_of_nodes, roots_written;
  std::vector<Mutated> mutated;                // one an input of the graph
  std::unordered_map<int32_t, Writes> writes;  // by root; most graphs have none
  std::unordered_map<const Value*, int32_t> ids;

 private:
  void number_values();
  void find_memory();
  void find_forward(bool side_effects_too);
  void find_late();
  void find_repeatable();
  bool is_layout_bound(const NodeFacts& view) const;
};

}  // namespace firesteel
