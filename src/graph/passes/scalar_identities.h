// Arithmetic with a number that gives back every bit of the tensor: x*1, x-0, x/1, x**1.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// Part of constant_folding. The graph must be functional.
bool drop_scalar_identities(Graph& graph);

}  // namespace firesteel
