// Calls of functions that data decides about.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// torch.cond(pred, true_fn, false_fn, operands)
PyRef choose_branch(Capture& capture, PyObject* callable, CallArgs& args);
// torch.while_loop(cond_fn, body_fn, carried_inputs)
PyRef loop_on_data(Capture& capture, PyObject* callable, CallArgs& args);

}  // namespace firesteel::capture
