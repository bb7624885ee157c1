// Runs the operators of a graph as they stand, once: for graphs that came from text.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace firesteel {

// `inputs`: one for each of the graph's, in order, whose layouts must be those of the graph. Nothing is differentiated.
// With `native` what can run in kernels does, as in a compiled function; the kernels are compiled first.
FIRESTEEL_API std::vector<at::Tensor> run_graph(const Graph& graph, std::vector<at::Tensor> inputs, bool native);

}  // namespace firesteel
