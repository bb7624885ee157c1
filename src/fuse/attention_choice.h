// Attention by code of ours.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// Turns ATen's float32 attention into firesteel::attention, which calls ATen for what it does not know.
// FIRESTEEL_ATTENTION=aten leaves all to ATen. True where something changed.
bool choose_attention(Graph& graph);

// Raises for a FIRESTEEL_ATTENTION that means nothing.
void check_attention_setting();

}  // namespace firesteel
