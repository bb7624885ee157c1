// Guards that the program leaves out: it is shown each of them, and says which are to be kept.
#pragma once

#include <vector>

#include "guards/guard_program.h"

namespace firesteel::capture {

// What the paths of the guards start from.
struct GuardRoots {
  PyObject* const* arguments;  // of the call, or the frame's values
  PyObject* function;
};

// `filter` gets one tuple a guard and gives as many truths: the path, whether a value was found there, the value, the
// kind of guard, whether the path goes through globals, and the module that the path last went through. May throw.
// Guards on open sizes, and on classes as a whole, are not shown.
void leave_out_guards(PyObject* filter, const GuardRoots& roots, std::vector<guards::Guard>& guards);

}  // namespace firesteel::capture
