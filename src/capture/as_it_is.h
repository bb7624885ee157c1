// Functions that run for real while a call is captured, and what of their arguments is guarded for it.
#pragma once

#include <string>

#include "capture/capture.h"

namespace firesteel::capture {

// As a message names it.
std::string name_of(PyObject* callable);

// CPython binds the arguments; what defaults it fills in must be those seen now.
void guard_defaults(Capture& capture, PyFunctionObject* function);

// Functions of the standard library that only look at classes and code: not worth following.
bool runs_as_it_is(PyFunctionObject* function);

// `shared`: what it gives back is kept by others as well.
PyRef run_as_it_is(Capture& capture, PyObject* callable, const CallArgs& args, bool shared);

}  // namespace firesteel::capture
