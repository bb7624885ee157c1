// Gives the gradients of embedding tables memory that was used before.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// embedding_dense_backward fills a tensor as large as the table with zeros to change a few rows: most of its time goes
// into the first touch of fresh pages. True where the graph has changed.
bool choose_table_gradients(Graph& graph);

}  // namespace firesteel
