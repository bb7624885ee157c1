// Branches on tensors one side of which only raises: `if not valid.all(): raise ValueError(...)`.
//
// A graph asserts that the other side is taken. Where a call's data says otherwise, the code itself runs in its place,
// and raises what it raises.
#pragma once

#include <Python.h>

namespace firesteel::capture {

// Whether the code runs straight to a `raise` from an instruction on. `bytes`: without the interpreter's
// specialisations.
bool only_raises(PyObject* bytes, int instruction);

// Whether what is raised now may be caught in one of the thread's `depth` innermost frames.
bool is_caught_within(PyThreadState* state, int depth);

}  // namespace firesteel::capture
