// operator.attrgetter by name, for sources that read an attribute no other step leads to, and operator.methodcaller for
// those that ask a C function.
#pragma once

#include "python/py_ref.h"

namespace firesteel::capture {

// The same one for the same name; never destroyed. Borrowed.
PyObject* getter_of(PyObject* name);
// The same for a call of the method of that name with these arguments, a tuple.
PyObject* caller_of(PyObject* name, PyObject* args);

}  // namespace firesteel::capture
