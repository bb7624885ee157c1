// Iterables that are handed to C code, and what comes back from it.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Containers, views, iterators and objects written in Python that can be iterated; no strings.
bool is_iterable(PyObject* value);

// All items of an iterable, taken now.
PyRef items_of(Capture& capture, PyObject* iterable);

// The dict that a mapping written in Python stands for: its keys(), and an item for each. Empty for what has no keys().
PyRef dict_of_mapping(Capture& capture, PyObject* mapping);

// A generator or an object written in Python becomes a list: C code then runs no more of it.
void settle(Capture& capture, PyRef& value);

// Whatever came out of C code that was given objects of its own.
PyRef result_of(Capture& capture, PyRef result);

}  // namespace firesteel::capture
