// Turns the nodes of one group into a loop kernel.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "fuse/fusion.h"
#include "fuse/index_space.h"

namespace firesteel {

using Placements = std::unordered_map<const Value*, Placement>;

// `nodes` in graph order, `placements` of their outputs, `stored` those of them that are read outside.
FusedGroup build_group(std::vector<const Node*> nodes, const Placements& placements, const LoopTable& loops,
                       const std::unordered_set<const Value*>& stored);

}  // namespace firesteel
