// The fields of an exception: what it holds besides its dict.
#pragma once

#include <utility>
#include <vector>

#include "python/py_ref.h"

namespace firesteel::capture {

// Descriptors that can be set, and their values, in the order in which they are to be set. Fields that hold nothing,
// and the traceback, are left out.
std::vector<std::pair<python::PyRef, python::PyRef>> fields_of_exception(PyObject* exception);

}  // namespace firesteel::capture
