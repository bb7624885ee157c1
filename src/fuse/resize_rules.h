// Pictures of another size: interpolate by the nearest point or between four, and the gradients that can be gathered.
#pragma once

#include "fuse/node_rules.h"

namespace firesteel {

std::optional<NodeSpace> resize_space(const Node& node);
// None where the node resizes no picture.
std::optional<ExprId> lower_resize(const Node& node, LoopKernel& kernel, Operands& operands);

}  // namespace firesteel
