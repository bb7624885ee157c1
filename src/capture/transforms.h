// Transforms of torch.func (grad, vmap, jvp and what is made of them) in captured code: their Python is followed, and
// their steps in C are nodes.
#pragma once

#include <ATen/core/Tensor.h>

#include "capture/marked_calls.h"

namespace firesteel::capture {

const std::vector<ControlRule>& transform_rules();

// What lies in a tensor that transforms have wrapped; the tensor itself where none has.
at::Tensor without_transforms(const at::Tensor& tensor);

// Closes the levels of transforms above `left`.
void close_transforms(size_t left);
// The same for forward-mode differentiation, of which torch knows one level.
bool is_dual_level_open();
void close_dual_level();

}  // namespace firesteel::capture
