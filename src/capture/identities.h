// What id() and hash() give for objects of the capture: numbers that each call has others of. They may be compared and
// be keys; whatever would keep or show one ends the capture.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// An int of its own that stands for an address, or for what is made of one.
PyRef new_made_address(Capture& capture, PyRef number);
bool is_made_address(PyObject* value);
// At the end of a capture.
void forget_made_addresses();
// What two may be besides compared: nothing.
void stop_at_made_address(Capture& capture, PyObject* value);

}  // namespace firesteel::capture
