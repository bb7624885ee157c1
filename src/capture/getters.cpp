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

PyObject* caller_of(PyObject* name, PyObject* args) {
  static PyObject* callers = python::checked(PyDict_New()).release();
  python::PyRef key = python::checked(PyTuple_Pack(2, name, args));
  PyObject* known = PyDict_GetItemWithError(callers, key.get());
  python::check(known || !PyErr_Occurred());
  if (known) return known;
  python::PyRef module = python::checked(PyImport_ImportModule("operator"));
  python::PyRef maker = python::checked(PyObject_GetAttrString(module.get(), "methodcaller"));
  python::PyRef first = python::checked(PyTuple_Pack(1, name));
  python::PyRef all = python::checked(PySequence_Concat(first.get(), args));
  python::PyRef made = python::checked(PyObject_CallObject(maker.get(), all.get()));
  python::check(PyDict_SetItem(callers, key.get(), made.get()) == 0);
  return made.get();  // the dict keeps it
}

}  // namespace firesteel::capture
