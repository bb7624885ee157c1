// The first kernel every operator meets while tracing: swaps real tensors for their stand-ins before autograd sees
// them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace firesteel {

// Also for an operator with an entry of its own, which hands on what it does not care for.
void entry_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace firesteel
