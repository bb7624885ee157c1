// Of which class a value is to the program, where something else stands in for it.
#pragma once

#include "capture/callables.h"

namespace firesteel::capture {

PyTypeObject* type_the_program_sees(PyObject* value);
// The first argument of isinstance(), or what answers in its place.
PyRef as_the_program_sees(const PyRef& value, const CallArgs& args);
// isinstance() or issubclass() of two arguments.
PyRef is_instance_of(PyObject* callable, const CallArgs& args);
// A `__class__` of the program's own, or a metaclass of one of these classes, answers isinstance() or issubclass().
bool asks_own_code(Capture& capture, PyObject* asked, PyObject* types);

}  // namespace firesteel::capture
