// Calls of classes over torch.autograd.Function.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Whether it is the function under `Function.apply`.
bool is_autograd_apply(PyObject* function);
// One node; the class and the arguments come first. Its methods are followed for what they read and write.
PyRef call_autograd_function(Capture& capture, PyObject* apply, CallArgs args);

}  // namespace firesteel::capture
