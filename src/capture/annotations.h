// Where calls stand, for the nodes that they become: modules whose forward() is followed, and blocks of notes.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// A tuple of one entry goes on top: (id, path, weak reference to the class) of a module, (None, "", dict) of notes.
void push_module_stack(Capture& capture, const PyRef& entry);

// The rules for a block of torch.fx.traceback.annotate().
PyRef begin_notes(Capture& capture, PyObject* callable, CallArgs& args);
PyRef end_notes(Capture& capture, PyObject* callable, CallArgs& args);

}  // namespace firesteel::capture
