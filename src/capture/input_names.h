// How the inputs of a module's graph are called.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// The compiled call of a module takes `*args` and `**kwargs`: its inputs get the names that forward() has for them.
void name_inputs_as_forward_does(Capture& capture, PyCodeObject* code, PyObject* self);

}  // namespace firesteel::capture
