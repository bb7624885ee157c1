// Python values that are part of a structure: known when traced, compared when called again.
#pragma once

#include <string>

#include "python/py_ref.h"

namespace firesteel::python {

// Numbers, text, None, enum members, torch's own small types, slices, ranges and sets of these; classes and modules, by
// identity.
bool is_constant(PyObject* object);
// torch's own: dtypes, devices, sizes, layouts, memory formats.
bool is_torch_constant(PyObject* object);
// For results of a traced function: a module or another object with state is none.
bool is_plain_constant(PyObject* object);

// Same type and same value: 1, True and 1.0 differ, so do 0.0 and -0.0; nan equals nan.
bool same_constant(PyObject* a, PyObject* b);

// `3`, `"mean"`, `torch.float32`: repr, shortened, and never an error.
std::string spell(PyObject* object);

// The same without running any Python code: constants and containers of these as they are, of others the class.
std::string spell_plainly(PyObject* object);

// What to hand out for a stored constant: itself, or a copy where the caller could change it.
PyRef fresh_constant(PyObject* constant);

bool is_enum_member(PyObject* object);
// `value` or `name` of a member of an enum, as Enum itself defines them: constants as the member is.
bool is_of_enum_itself(PyObject* object, PyObject* name);

}  // namespace firesteel::python
