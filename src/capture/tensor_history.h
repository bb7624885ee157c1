// What captured code does to a tensor's place in autograd: requires_grad, .grad, parameters made inside.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// `requires_grad_` and `detach_` where a graph can hold them. Empty for others, and for tensors from outside.
PyRef change_of_history(Capture& capture, PyObject* callable, const CallArgs& args);
// `tensor.name = value`; a null value deletes.
void store_tensor_attribute(Capture& capture, PyObject* tensor, PyObject* name, PyObject* value);

// The rule for torch.nn.Parameter, called as a class.
PyRef make_parameter(Capture& capture, PyObject* callable, CallArgs& args);
// The rule for torch.autograd.grad (autograd_calls.cpp).
PyRef differentiate(Capture& capture, PyObject* callable, CallArgs& args);
// The rule for functions that leave a hook on a module: they run as they are.
PyRef leave_hook(Capture& capture, PyObject* callable, CallArgs& args);

}  // namespace firesteel::capture
