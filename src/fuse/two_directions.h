// Cuts operators that reduce both along rows and across them in two, so that each half is a kernel of one direction.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// native_layer_norm_backward by its output mask: the input's gradient, and those of weight and bias.
FIRESTEEL_API void split_directions(Graph& graph);

}  // namespace firesteel
