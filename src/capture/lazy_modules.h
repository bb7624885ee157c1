// Modules that find out the shapes of their parameters from their first input.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Initializes a lazy module for real, as its first call would. True: it was done, and the capture will start again as
// soon as it is stopped, with the module as it is then.
bool initialize_lazy_module(Capture& capture, PyObject* module, const CallArgs& args);

}  // namespace firesteel::capture
