// A backward graph for the case that nothing came back for some results of the forward.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// The graph for those tangents alone that are `given`, by tangent: what autograd would not have run is left out, sums
// lose the terms that are missing, and a gradient that has no term left is None. Inputs stay as they are; a tangent
// that is not given is still read where an operator wants numbers in its place: zeros.
Graph without_tangents(const Graph& backward, const std::vector<bool>& given);

// By tangent: whether anything reads it.
std::vector<bool> read_tangents(const Graph& backward);

}  // namespace firesteel
