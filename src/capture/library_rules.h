// Functions of libraries that stand around others.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// What lies under `typing_extensions.deprecated` around a function of torch's, which warns of it at every call: whoever
// calls it compiled is told so where the call runs eagerly. Null for other functions.
PyObject* under_deprecation(PyObject* function);

}  // namespace firesteel::capture
