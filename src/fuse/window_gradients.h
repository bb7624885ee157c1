// Gradients of pools, gathered: each point of the picture looks at the windows that it may lie in.
#pragma once

#include "fuse/node_rules.h"

namespace firesteel {

std::optional<NodeSpace> window_gradient_space(const Node& node);
// None where the node is no such gradient.
std::optional<ExprId> lower_window_gradient(const Node& node, LoopKernel& kernel, Operands& operands);

}  // namespace firesteel
