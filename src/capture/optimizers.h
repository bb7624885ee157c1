// Optimizers of torch that captured code steps.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Before an optimizer looks for the state of its parameters: makes for real what is not there yet. True: it was done,
// and the capture will start again as soon as it is stopped, with the state as it is then.
bool initialize_optimizer(Capture& capture, PyObject* callable, const CallArgs& args);

// Groups of parameters have a switch for code that may not read numbers out of tensors. Graphs for backends that are
// functions are captured with it on, as PyTorch does: what is computed differs in the last bits, so others are not.
// True for that key of a group that can be followed that way.
bool is_capturable_switch(const Capture& capture, PyObject* group, PyObject* key);

}  // namespace firesteel::capture
