// What a node, with its arguments, does besides computing: op_facts() made precise for one call.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// Whether the node writes to an argument. Calls that are not ATen may do anything, so they count as writing.
FIRESTEEL_API bool writes(const Node& node);
// May be dropped, merged with an equal one, run again.
FIRESTEEL_API bool is_pure(const Node& node);
// No node writes: values never change once made, so a pass may reorder, merge and share them.
FIRESTEEL_API bool is_functional(const Graph& graph);

// The argument of an ATen node by its schema name; null where there is none.
const Arg* find_arg(const Node& node, std::string_view name);
// Whether it is the ATen operator `aten::name`, whatever its overload.
bool is_aten_op(const Node& node, std::string_view name);

}  // namespace firesteel
