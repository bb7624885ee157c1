// Structures of flat values as trees, for graphs' text and for messages.
#pragma once

#include <string_view>

#include "graph/tree.h"

namespace firesteel {

// The one value that a structure describes; an empty tuple where it describes none (a function that returns nothing).
Tree result_tree(std::string_view structure);

// All values of a structure, as a tuple.
Tree argument_tree(std::string_view structure);

}  // namespace firesteel
