// Sums that run from the end of a row: the gradient of cumsum, which ATen has no operator for.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// flip, cumsum and flip along one dimension become one operator. True where the graph has changed.
FIRESTEEL_API bool join_flipped_sums(Graph& graph);

}  // namespace firesteel
