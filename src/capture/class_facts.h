// What a class tells of itself: its names, its text, its bases.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Guarded, since all of it can be set. Empty for all other attributes.
PyRef class_fact(Capture& capture, PyObject* type, PyObject* name);
// inspect.getattr_static of a class or an object of one: what lies there, no descriptor asked.
PyRef static_attribute(Capture& capture, PyObject* callable, CallArgs& args);

// A property, or an object of a class over `property` that gives and takes values as one does.
bool acts_as_property(PyObject* object);

}  // namespace firesteel::capture
