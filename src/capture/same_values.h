// Writes of what is there already: they leave no trace in the journal, and hold for such a place only.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// Before the captured code puts `value` under a key of a dict from outside, or at a place that `at` leads to.
void guard_same(Capture& capture, PyObject* dict, PyObject* key, PyObject* value);
void guard_same(Capture& capture, const Source* at, PyObject* before, PyObject* value);

}  // namespace firesteel::capture
