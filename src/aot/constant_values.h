// Values that follow from constants the traced function made itself: `torch.tensor(8) // 2` may be read.
#pragma once

#include <ATen/core/Tensor.h>

#include "aot/recorder.h"

namespace firesteel {

// The value where it is small and computed from nothing but such constants; undefined for others.
at::Tensor constant_value(const Recorder& recorder, const Value* value);

}  // namespace firesteel
