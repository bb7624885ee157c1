// Turns the nodes of one group into a loop kernel.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "fuse/fusion.h"
#include "fuse/index_space.h"
#include "fuse/node_rules.h"

namespace firesteel {

using Placements = std::unordered_map<const Value*, Placement>;

// A member of a group, and the loops of its own index space.
struct GroupNode {
  const Node* node;
  NodeSpace space;
  Placement placement;
};

// `nodes` in graph order, `placements` of their outputs, `stored` those of them that are read outside.
FusedGroup build_group(const std::vector<GroupNode>& nodes, const Placements& placements, const LoopTable& loops,
                       const std::unordered_set<const Value*>& stored);

}  // namespace firesteel
