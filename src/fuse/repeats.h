// Values that are cheaper to compute again in every kernel that reads them than to write and read.
#pragma once

#include <functional>
#include <unordered_set>

#include "fuse/group_builder.h"

namespace firesteel {

// `members`: all nodes of groups. `group_of`: of a node, -1 where it will not run in a kernel.
// The rule: a pointwise value of a few additions and multiplications of what lies in memory anyway, which only other
// kernels read, each at the same points or, as a piece of something, at points moved by a fixed number.
std::unordered_set<const Value*> cheap_repeats(const Graph& graph,
                                               const std::unordered_map<const Node*, GroupNode>& members,
                                               const std::function<int32_t(const Node*)>& group_of);

}  // namespace firesteel
