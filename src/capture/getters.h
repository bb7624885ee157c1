// operator.attrgetter by name, for sources that read an attribute no other step leads to.
#pragma once

#include "python/py_ref.h"

namespace firesteel::capture {

// The same one for the same name; never destroyed. Borrowed.
PyObject* getter_of(PyObject* name);

}  // namespace firesteel::capture
