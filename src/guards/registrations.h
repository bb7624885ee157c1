// Abstract classes take in others by `register`: who asks what is their subclass may get another answer later.
#pragma once

#include <cstdint>
#include <utility>

#include "python/py_ref.h"

namespace firesteel::guards {

// A class, and an abstract one that it was no subclass of.
using Strangers = std::pair<PyObject*, PyObject*>;

// A number that is another one after each registration with any abstract class.
uint64_t registrations();
bool is_abstract_class(PyObject* type);
// May run Python code of the abstract class.
bool are_still_strangers(const Strangers& pair);

}  // namespace firesteel::guards
