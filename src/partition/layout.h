// The layout of copies.
#pragma once

#include "graph/type.h"

namespace firesteel {

// The type of `aten.clone(x)`: the same order of strides, with no holes between elements.
Type type_of_copy(const Type& type);

}  // namespace firesteel
