// Drops pure nodes whose results nobody uses. Outputs, mutations and nodes with effects keep what they need.
#pragma once

#include "graph/graph.h"

namespace firesteel {

FIRESTEEL_API bool dead_code(Graph& graph);

}  // namespace firesteel
