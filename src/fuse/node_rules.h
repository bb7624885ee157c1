// Which operators have a loop form, in what index space, and what they compute there: pointwise and row rules together.
#pragma once

#include "fuse/pointwise_rules.h"

namespace firesteel {

// In which order a node goes along a row, where that matters to it.
enum class Walk : uint8_t { Any, FromStart, FromEnd };

// Where a node computes. Its results are values of all points, or of rows where dimensions are reduced.
struct NodeSpace {
  std::vector<Dim> sizes;
  std::vector<bool> reduced;  // by dimension; empty where none is
  // Operands that lie along other dimensions than the last ones: where they begin.
  std::vector<std::pair<const Value*, size_t>> aligned = {};
  // Operands that no kernel may both compute and read here: tables, and the indices that say where in them.
  std::vector<const Value*> in_memory = {};
  // Operands that are read at other points: no kernel may both compute and read them, but it may compute them again.
  std::vector<const Value*> moved = {};
  Walk walk = Walk::Any;
  bool alone = false;       // worth a kernel of its own
  bool in_company = false;  // worth one with others only

  bool wants_in_memory(const Value* operand) const;
  bool is_moved(const Value* operand) const;
  size_t first_dim(const Value* operand) const;
  bool reduces() const { return !reduced.empty(); }
  Dim rows() const;
  Dim row_length() const;
};

// None where the node has no loop form, or where eager's result could not be matched: it stays an ATen call.
std::optional<NodeSpace> node_space(const Node& node);

// The node's results, each in its recorded dtype; kNoExpr for results that are none. The node must have a space.
std::vector<ExprId> lower_node(const Node& node, LoopKernel& kernel, Operands& operands);

}  // namespace firesteel
