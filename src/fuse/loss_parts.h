// Cuts the loss of class targets into parts that kernels can hold: a pick in each row, and sums over rows.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// nll_loss_forward of rows with one target each, its mean or its sum, becomes: targets looked at once (an error where
// one is out of bounds, as eager's), the picked number of each row, which joins the kernel that computes the row, a
// count and a sum. True where the graph has changed.
bool split_losses(Graph& graph);

}  // namespace firesteel
