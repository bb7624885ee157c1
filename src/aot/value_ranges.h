// What is known of a traced tensor's values for every run: random numbers lie between bounds.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "firesteel/export.h"

namespace firesteel {

// The truth of a traced tensor with one element, where no run can give another: `torch.rand([]) < 0.0` is false, and so
// is what follows from constants of the function itself. Reads nothing that a call brings.
FIRESTEEL_API std::optional<bool> known_truth(const at::Tensor& tensor);

// True where all of its values follow from constants of the function itself: they may be read while tracing.
FIRESTEEL_API bool is_known(const at::Tensor& tensor);

}  // namespace firesteel
