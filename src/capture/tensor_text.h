// The text of a tensor that captured code has formatted: it may be passed on and dropped, as messages of checks that
// hold are. Whoever looks at it breaks the capture.
#pragma once

#include "python/py_ref.h"

namespace firesteel::capture {

class Capture;

void make_tensor_text_type(PyObject* module);
python::PyRef new_tensor_text(Capture& capture);
bool is_tensor_text(PyObject* object);
// Breaks where one lies among these values: in them, or in lists, tuples and dicts.
void stop_at_tensor_text(Capture& capture, PyObject* value);

}  // namespace firesteel::capture
