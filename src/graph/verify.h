// The rules of the IR as a question, for verify() and for the parser.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace firesteel {

// Which rule of graph.h the graph breaks, and where; nullopt where all hold.
std::optional<std::string> broken_rule(const Graph& graph);

}  // namespace firesteel
