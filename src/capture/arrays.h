// Arrays of numpy as tensors of the graph: what stands in for them, and for numpy's functions on them.
//
// The program sets the rules (python/firesteel/interop/arrays.py); without them arrays are not followed.
#pragma once

#include "capture/callables.h"

namespace firesteel::capture {

// `stand_in`: a class whose objects hold a tensor as `.tensor`, and as `.finish` what makes the array of it at the end.
// `always`, `with_arrays`: dicts from a function to the one that is followed in its place; the second only where an
// argument is a stand-in. None for all of them: no arrays.
void set_array_rules(PyObject* stand_in, PyObject* always, PyObject* with_arrays);

// An array among what a call is given becomes an input: the tensor over its memory, made anew by the guards.
bool collect_array(Capture& capture, PyObject* value, const Source* source);
// All is collected: arrays must lie apart from the tensors of the call, now and at every later one.
void keep_arrays_apart(Capture& capture);
// The same for a tensor that is read later on.
void keep_from_arrays(Capture& capture, PyObject* tensor, const Source* source);
// Before an array from outside is written to, a rule of builtins.cpp.
PyRef write_to_array(Capture& capture, PyObject* callable, CallArgs& args);
bool lie_apart(const at::Tensor& one, const at::Tensor& other);
// The stand-in for an array that was collected; empty for all else.
PyRef array_at(Capture& capture, PyObject* value, const Source* source);
bool is_array_stand_in(PyObject* value);
bool is_array_stand_in_class(PyObject* type);
// One of numpy's dtypes: known by itself, as each is one object.
bool is_array_dtype(PyObject* value);
// What it tells of itself, the same for ever: `itemsize`, `kind`.
bool is_dtype_fact(PyObject* dtype, PyObject* name);
// A number of numpy's that torch takes as one of Python's: known by its type and value.
bool is_array_number(PyObject* value);
// The same arguments, with plain numbers in place of these and of those of own classes; empty where there are none.
PyRef with_plain_numbers(PyObject* nested);
void guard_array_number(Capture& capture, PyObject* value, const Source* source);
// numpy.ndarray itself.
PyTypeObject* array_type();
// A place in a tensor, with the tensors of arrays that are part of it.
PyRef place_with_tensors(PyObject* place);
// The source of the array that this stands in for; null for one that was computed.
const Source* array_source(Capture& capture, PyObject* stand_in);
// What is followed in place of a function of numpy, or of torch's ways to and from it; null: the function itself.
PyObject* array_function(PyObject* callable, const CallArgs& args);

}  // namespace firesteel::capture
