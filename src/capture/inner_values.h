// Objects of classes over int, float, str, complex and bytes: what they are besides their attributes.
#pragma once

#include <Python.h>

namespace firesteel::capture {

// What gives the number, text or bytes that an object of a class of its own is, as an object of the C class; null for
// all else. Borrowed. Runs no Python code.
PyObject* plain_form(PyObject* object);

}  // namespace firesteel::capture
