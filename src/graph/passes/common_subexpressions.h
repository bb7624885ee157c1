// Computes equal pure expressions once: same operator, same arguments, constants compared by value.
#pragma once

#include "graph/graph.h"

namespace firesteel {

FIRESTEEL_API bool common_subexpressions(Graph& graph);

}  // namespace firesteel
