// Operators whose points each look at a window of their input: max_pool2d, avg_pool2d.
#pragma once

#include "fuse/node_rules.h"

namespace firesteel {

// One place of a window, for all points: along each dimension of the input, index · step + start.
struct WindowPlace {
  const Value* value = nullptr;
  std::vector<int64_t> step, start;
};

std::optional<NodeSpace> window_space(const Node& node);
// Empty where the node looks at no window.
std::vector<ExprId> lower_window(const Node& node, LoopKernel& kernel, Operands& operands);

}  // namespace firesteel
