// Calls of small C objects of the standard library that stand for something else.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

void prepare_callable_objects();  // runs Python that no capture must see

// `random.Random` and its kin.
bool is_random_generator(PyTypeObject* type);
bool is_partial(PyObject* object);
PyRef call_partial(Capture& capture, PyObject* partial, CallArgs args);

// operator.itemgetter, attrgetter, methodcaller.
bool is_getter_class(PyTypeObject* type);
PyRef call_getter(Capture& capture, PyObject* getter, CallArgs& args);

// What a weak reference leads to, None where that is gone.
PyRef referent_of(Capture& capture, PyObject* reference);

// Rules of builtins.cpp: weakref.ref(…), what collections.Counter counts with, and sys.exc_info() where there is
// none, or one that was raised inside.
PyRef refer_weakly(Capture& capture, PyObject* callable, CallArgs& args);
PyRef count_elements(Capture& capture, PyObject* callable, CallArgs& args);
// A method of a compiled regular expression, or of what it has matched; empty for others.
PyRef call_pattern_method(Capture& capture, PyObject* method, CallArgs& args);
PyRef exception_info(Capture& capture, PyObject* callable, CallArgs& args);

// The implementation that a function of functools.singledispatch has for a class; empty where `function` is not its
// `dispatch`, or has to be followed as it is.
PyRef dispatched(Capture& capture, PyObject* function, const CallArgs& args);

}  // namespace firesteel::capture
