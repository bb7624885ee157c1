// Attributes of Python functions.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Empty: it has none of that name.
PyRef function_attribute(Capture& capture, PyObject* object, PyObject* name);

}  // namespace firesteel::capture
