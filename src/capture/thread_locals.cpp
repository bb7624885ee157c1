// Attributes of a threading.local: it keeps others for each thread, which only the object itself can tell.
#include "capture/thread_locals.h"

#include <fmt/format.h>

#include "capture/getters.h"
#include "python/errors.h"

namespace firesteel::capture {

using python::checked;

bool is_thread_local(PyObject* object) {
  static auto* type = reinterpret_cast<PyTypeObject*>(
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("_thread")).get(), "_local")).release());
  return Py_IS_TYPE(object, type);
}

PyRef thread_local_attribute(Capture& capture, PyObject* object, PyObject* name) {
  const Source* source = capture.source_of(object);
  PyRef value = PyRef::steal(PyObject_GetAttr(object, name));
  const bool special = python::text_of(name).starts_with("__");
  if (!value || !source || special) {
    PyErr_Clear();
    capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a threading.local", python::text_of(name)));
  }
  return capture.admit(value.get(), capture.sources.computed(getter_of(name), source, nullptr));
}

}  // namespace firesteel::capture
