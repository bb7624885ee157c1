// Computes small constant expressions now, into captured inputs, and drops arithmetic that changes no bit.
#pragma once

#include "graph/graph.h"

namespace firesteel {

FIRESTEEL_API bool constant_folding(Graph& graph);

}  // namespace firesteel
