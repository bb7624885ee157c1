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
  // Where it stands in for a piece of an index space: how far that begins along each dimension, and whether the point
  // is in it.
  std::vector<Dim> shift = {};
  ExprId inside = kNoExpr;
};

// What a group knows of the graph around it.
struct GroupSetting {
  const Placements& placements;  // of all members' outputs
  const LoopTable& loops;
  const std::unordered_set<const Value*>& stored;    // outputs that are read outside
  const std::unordered_set<const Value*>& repeated;  // values that readers compute again
};

FusedGroup build_group(const std::vector<GroupNode>& nodes, const GroupSetting& setting);  // nodes in graph order

}  // namespace firesteel
