// Matrix products and convolutions by the library that is faster on this machine, for the size at hand.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// Turns float32 products and convolutions of some size into firesteel::product and its like (src/runtime/products),
// which find out by measuring which library to call. FIRESTEEL_MATMUL=onednn gives oneDNN all products, whatever their
// size; =aten leaves everything to ATen. True where something changed.
FIRESTEEL_API bool choose_libraries(Graph& graph);

// Whether layers may be oneDNN's at all: where weights are packed for it, it is the one to call on all processors.
bool may_use_onednn();

// Raises for a FIRESTEEL_MATMUL that means nothing.
void check_matmul_setting();

}  // namespace firesteel
