// What is raised for an exception of the program's that ends the capture of a function of one graph.
#pragma once

#include "python/py_ref.h"

namespace firesteel::capture {

// From now on `form(exception)` gives it. None: the exception itself.
void set_exception_form(PyObject* form);
python::PyRef formed_exception(PyObject* exception);

}  // namespace firesteel::capture
