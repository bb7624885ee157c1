// Kernels that write where they read: over a graph's input, which `p.mul_(x)` asks for, or over a value that nobody
// needs any more.
#pragma once

#include "fuse/fusion.h"

namespace firesteel {

// A result of a group that may be written over one of its inputs.
struct Overwrite {
  int32_t output = -1, input = -1;  // as numbered in the group
};

// The mutations of the graph that this group can do in place: it alone reads the input, point by point where it writes
// the new value, which nothing else gives out. The caller must know that no other tensor shares the input's memory, and
// that no kernel reads the input later.
std::vector<Overwrite> overwrites(const Graph& graph, const FusedGroup& group);

// Results that may be written over a value of the graph's own making, which the group reads point by point where it
// writes. The caller must know that nothing else holds that memory, or reads it later. Each input and output once.
std::vector<Overwrite> reuses(const FusedGroup& group);

}  // namespace firesteel
