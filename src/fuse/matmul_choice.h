// Matrix products by the library that is faster on this machine.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// Turns float32 `mm` and `addmm` into calls of oneDNN where that pays: for products of some size, on processors that
// MKL holds back on. FIRESTEEL_MATMUL=onednn or =aten decides for all sizes and processors.
// True where something changed.
FIRESTEEL_API bool choose_matmuls(Graph& graph);

// Whether layers may be oneDNN's at all: where weights are packed for it, it is the one to call on all processors.
bool may_use_onednn();

// Raises for a FIRESTEEL_MATMUL that means nothing.
void check_matmul_setting();

}  // namespace firesteel
