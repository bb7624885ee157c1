// Looks at indices before a kernel reads memory by them.
#pragma once

#include <ATen/core/Tensor.h>

#include "fuse/index_check.h"

namespace firesteel {

// Raises what eager would where an index is out of bounds. `inputs`: the kernel's.
void check_indices(const IndexCheck& check, at::ArrayRef<at::Tensor> inputs);

}  // namespace firesteel
