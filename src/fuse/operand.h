// What an operand of a pointwise node really reads: a value in memory through views, or a number.
#pragma once

#include <optional>

#include "fuse/index_space.h"
#include "fuse/loop_ir.h"
#include "graph/graph.h"

namespace firesteel {

// The element type in the loop IR; none for dtypes that it does not know.
std::optional<Element> element_of(c10::ScalarType dtype);
// A tensor on the CPU with a known element type.
bool is_loopable(const Type& type);

// Whether the node only looks at its input's memory in another way, expressible by an index map.
bool is_mapped_view(const Node& node);

struct Operand {
  const Value* root = nullptr;         // what the views start from
  std::vector<const Node*> views;      // from the root outwards
  Dim offset = 0;                      // of the viewed element 0 from the root's, in elements
  std::optional<at::Scalar> constant;  // a tensor filled with one number (`full`, `zeros`, …): no memory is read
};

// Follows views back. The operand's own recorded strides are the index map into the root's memory.
Operand resolve(const Value* value);

// How far the viewed points lie from the root's along each dimension, where the views do nothing but cut pieces out.
std::optional<std::vector<Dim>> slice_starts(const Operand& operand);

// Where the viewed value lies in an index space in which its root lies at `root`; a dimension that repeats has no
// loops. None where a view drops or regroups points, so that the value is not the same points in another shape.
std::optional<Placement> place_view(const Operand& operand, Placement root, LoopTable& loops);

}  // namespace firesteel
