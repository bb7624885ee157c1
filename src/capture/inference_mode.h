// torch.inference_mode inside captured code: its blocks, and torch's modes as a failing run must leave them.
#pragma once

#include "capture/capture.h"
#include "capture/runner.h"

namespace firesteel::capture {

// Rules for `torch.inference_mode.__enter__` and `__exit__`.
PyRef enter_block(Capture& capture, PyObject* callable, CallArgs& args);
PyRef leave_block(Capture& capture, PyObject* callable, CallArgs& args);

// The functions that do the same for a graph that is run call by call: `(enabled)`, and without arguments.
PyObject* entering_function();
PyObject* leaving_function();

// Where captured code switches torch's modes: puts them back should a run fail in between, as the blocks around the
// failing call would have done.
std::unique_ptr<Runner> make_mode_keeping_runner(std::unique_ptr<Runner> runner);

}  // namespace firesteel::capture
