// How the inputs of a module's graph are called.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// The names of a module's forward()'s positional parameters, `self` first; empty where it is no plain function.
struct ForwardParameters {
  std::vector<std::string> names;
  bool of_library = false;  // it is torch's own
};
ForwardParameters parameters_of_forward(PyObject* module);

// Whether this code, called with this first argument, is what every call of a module goes through.
bool calls_a_module(PyCodeObject* code, PyObject* self);

// The compiled call of a module takes `*args` and `**kwargs`: its inputs get the names that forward() has for them.
void name_inputs_as_forward_does(Capture& capture, PyCodeObject* code, PyObject* self);

}  // namespace firesteel::capture
