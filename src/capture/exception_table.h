// Where a code object's instructions go when one of them raises.
#pragma once

#include <Python.h>

namespace firesteel::capture {

struct ExceptionHandler {
  int target = -1, depth = 0;
  bool pushes_instruction = false;
};

// The handler of an instruction; its target is -1 where there is none.
ExceptionHandler find_handler(PyCodeObject* code, int instruction);

// Whether an exception that an instruction raises may be caught, or looked at, in this code: by a `try`. A `with` block
// only ends by it. `bytes`: the code without the interpreter's own specialisations.
bool is_in_try(PyCodeObject* code, PyObject* bytes, int instruction);

}  // namespace firesteel::capture
