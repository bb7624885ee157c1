// Attributes of a threading.local, which has others in each thread.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

bool is_thread_local(PyObject* object);
// Empty where the thread has no such attribute, nor the class.
PyRef thread_local_attribute(Capture& capture, PyObject* object, PyObject* name);
// Sets an attribute, or deletes it where there is no value. False for those that the class has a say in.
bool store_thread_local(Capture& capture, PyObject* object, PyObject* name, PyObject* value);

}  // namespace firesteel::capture
