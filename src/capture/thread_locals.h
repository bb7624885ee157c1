// Attributes of a threading.local, which has others in each thread.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

bool is_thread_local(PyObject* object);
PyRef thread_local_attribute(Capture& capture, PyObject* object, PyObject* name);

}  // namespace firesteel::capture
