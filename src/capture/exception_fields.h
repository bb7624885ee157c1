// The fields of an exception: what it holds besides its dict; and its traceback.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <utility>
#include <vector>

#include "python/py_ref.h"

namespace firesteel::capture {

// Descriptors that can be set, and their values, in the order in which they are to be set. Fields that hold nothing,
// and the traceback, are left out.
std::vector<std::pair<python::PyRef, python::PyRef>> fields_of_exception(PyObject* exception);

// Where in its code an entry of a traceback is: its line and its instruction.
int64_t place_in_traceback(PyTracebackObject* entry);

// An entry at that place, which leads to `next` or to nothing. Its frame has no variables: it has never run.
python::PyRef new_traceback(PyObject* next, PyObject* code, PyObject* globals, int64_t place);

}  // namespace firesteel::capture
