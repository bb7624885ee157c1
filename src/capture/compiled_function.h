// The callable that firesteel.compile gives back: guards, then the graph, with no Python frame in between.
#pragma once

#include <nanobind/nanobind.h>

#include "capture/region.h"

namespace firesteel::capture {

// Makes the Python types of compiled and of marked functions; once.
void make_callable_types(PyObject* module);

// `callable` is a Python function or a bound method of one.
PyRef new_compiled_function(PyObject* callable, const RegionOptions& options);

// What a compiled function has compiled; null for any other object.
const Region* region_of(PyObject* object);

}  // namespace firesteel::capture
