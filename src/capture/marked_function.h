// A function under a control: outside a compiled function it just calls what it wraps.
#pragma once

#include <optional>
#include <string>

#include "python/py_ref.h"

namespace firesteel::capture {

using python::PyRef;

enum class FunctionMark : uint8_t {
  Nonstrict,  // one opaque node of the graph
  Disabled,   // a graph break; it runs eagerly, and all that it calls
  Skipped,    // a graph break; it runs eagerly, what it calls is compiled again
  RunOnly,    // compiled functions called inside use what is compiled already, and compile nothing
};

// Makes the Python type; once.
void make_marked_type(PyObject* module);
// `reason`: what a graph break says, or empty.
PyRef new_marked_function(PyObject* function, FunctionMark mark, std::string reason = {});

// The function under a mark; null for other objects.
PyObject* marked_callable(PyObject* object);
// Of an object that marked_callable knows.
FunctionMark mark_on(PyObject* object);
const std::string& reason_on(PyObject* object);

}  // namespace firesteel::capture
