// Functions that are followed in another form, written in Python (python/firesteel/_python_forms.py).
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// The form of a function; null for others.
PyObject* python_form(PyObject* callable);
// The form of a function of torch that takes numbers, where it is given tensors in their place.
PyObject* form_with_tensors(PyObject* callable, const CallArgs& args);
// The form of a function of torch that makes a tensor of numbers, where data gives some of these.
PyObject* form_with_data(const Capture& capture, PyObject* callable, const CallArgs& args);
// The form of min() or max() of tensors, or of tensors and numbers, where fullgraph=True allows no look at data.
PyObject* form_of_extreme(const Capture& capture, PyObject* callable, const CallArgs& args);
// The form of a function that draws a random number, or only watches, where fullgraph=True asks for one graph.
PyObject* form_of_whole(const Capture& capture, PyObject* callable);
// The same for a method of a random.Random from outside, which is guarded, and goes from the arguments.
PyObject* form_of_generator(Capture& capture, PyObject* callable, CallArgs& args);
// The form of one of torch's functions of sizes, called with plain numbers: what Python has for these.
PyObject* form_of_sizes(PyObject* callable, const CallArgs& args);
// Follows the form; where it answers NotImplemented the capture ends.
PyRef call_form(Capture& capture, PyObject* callable, PyObject* form, CallArgs args);

bool holds_tensor(PyObject* value, int depth = 0);

}  // namespace firesteel::capture
