// types.MappingProxyType: a dict that cannot be written to, read as the dict behind it.
#pragma once

#include "capture/callables.h"

namespace firesteel::capture {

// The dict that a proxy from outside, or one that was made inside, shows; empty for all else.
PyRef dict_behind(Capture& capture, PyObject* object);
// A method that a proxy passes on to its dict; empty for all else.
PyRef passed_on(Capture& capture, PyObject* object, PyObject* name);
// types.MappingProxyType(…), a rule of builtins.cpp.
PyRef make_proxy(Capture& capture, PyObject* callable, CallArgs& args);

}  // namespace firesteel::capture
