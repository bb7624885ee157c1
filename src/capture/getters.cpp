// Keeps the getters.
#include "capture/getters.h"

#include "python/errors.h"

namespace firesteel::capture {

PyObject* getter_of(PyObject* name) {
  static PyObject* getters = python::checked(PyDict_New()).release();
  PyObject* known = PyDict_GetItemWithError(getters, name);
  python::check(known || !PyErr_Occurred());
  if (known) return known;
  python::PyRef module = python::checked(PyImport_ImportModule("operator"));
  python::PyRef made = python::checked(PyObject_CallMethod(module.get(), "attrgetter", "O", name));
  python::check(PyDict_SetItem(getters, name, made.get()) == 0);
  return made.get();  // the dict keeps it
}

}  // namespace firesteel::capture
