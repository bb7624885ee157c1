// The callable that firesteel.compile gives back: guards, then the graph, with no Python frame in between.
#pragma once

#include <nanobind/nanobind.h>

#include "capture/entry.h"

namespace firesteel::capture {

// Makes the Python types of compiled and of nonstrict functions; once.
void make_callable_types(PyObject* module);

// `callable` is a Python function or a bound method of one.
PyRef new_compiled_function(PyObject* callable, Backend backend, bool fullgraph, size_t recompile_limit);
PyRef new_nonstrict_function(PyObject* function);

// The entries of a compiled function, newest first; null for any other object.
const std::vector<std::shared_ptr<Entry>>* entries_of(PyObject* object);

}  // namespace firesteel::capture
