// Torch may stand a node of its own around one of ours; asked for ours. Installed by the language layer.
#pragma once

#include <c10/core/SymNodeImpl.h>

#include "firesteel/export.h"

namespace firesteel {

// Gives the node itself where there is none inside.
using InnerNode = c10::SymNode (*)(const c10::SymNode& node);
FIRESTEEL_API void set_inner_node(InnerNode provider);

}  // namespace firesteel
