// Tensors of classes with `__torch_dispatch__` that wrap others and say how they are taken apart
// (`__tensor_flatten__`).
//
// In the graph such a tensor is one value. What stands for it while its graph is captured is an object of its class
// over stand-ins of its parts, on which the class's own code runs. The graph runs call by call: what the class does
// to real tensors is done at every call.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

bool is_wrapper_class(PyTypeObject* type);
bool is_wrapper(PyObject* value);
// A wrapper over stand-ins.
bool is_wrapper_stand_in(Capture& capture, PyObject* tensor);

// A tensor that a graph may take as an input: a plain one, or a wrapper.
bool may_be_input(PyObject* value);

// From here on the graph runs call by call, for the sizes of this call.
void go_call_by_call(Capture& capture);
// What stands for a wrapper that was found at a source, whose parts are guarded.
PyRef wrapper_stand_in(Capture& capture, PyObject* real, const Source* source);
// A wrapper that the captured code makes; of all other classes, the end of the capture.
PyRef make_wrapper(Capture& capture, PyObject* type, const CallArgs& args);
// One of its parts, or what else the stand-in of a result has in its own dict; empty for all others.
PyRef wrapper_part(Capture& capture, PyObject* wrapper, PyObject* name);

}  // namespace firesteel::capture
