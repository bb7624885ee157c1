// Functions of the program that are called while its code is captured, and are shown what is known there.
#pragma once

#include <Python.h>

namespace firesteel::capture {

// From now on a call of `callable` with a function calls `show(function, variables, open_names, graph, code)`, which
// gives None, or what the function wants: ("break", text), ("error", text), ("static", names). None ends it.
void set_inside_view(PyObject* callable, PyObject* show);
bool shows_inside(PyObject* callable);

}  // namespace firesteel::capture
