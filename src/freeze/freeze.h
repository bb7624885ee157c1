// Weights that stay as they are, prepared once: what depends on them alone is computed ahead of the calls, batch norms
// go into convolutions, and products and convolutions get their weights in the layout that oneDNN likes best.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace firesteel {

// Both graphs take the inputs of the graph they are made of, in its order; `run` takes what `prepare` gives after them.
struct FrozenGraph {
  Graph prepare, run;
  std::vector<size_t> weights;  // the inputs that `prepare` reads
};

// Nothing where no weight is there, or none gains. For graphs that are not differentiated: no gradient reaches a weight
// here. Captured tensors that the graph does not change are weights.
FIRESTEEL_API std::optional<FrozenGraph> freeze(const Graph& graph);

}  // namespace firesteel
