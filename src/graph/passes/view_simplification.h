// Joins chains of views and drops views and copies that change nothing, where no memory relation of an output changes.
#pragma once

#include "graph/graph.h"

namespace firesteel {

FIRESTEEL_API bool view_simplification(Graph& graph);

}  // namespace firesteel
