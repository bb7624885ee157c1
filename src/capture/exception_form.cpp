// Asks the form, where there is one.
#include "capture/exception_form.h"

#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::PyRef;

// Guarded by the GIL; never destroyed.
PyRef& current() {
  static auto* held = new PyRef;
  return *held;
}

}  // namespace

void set_exception_form(PyObject* form) { current() = form == Py_None ? PyRef() : PyRef::borrow(form); }

PyRef formed_exception(PyObject* exception) {
  const PyRef form = current();
  if (!form) return PyRef::borrow(exception);
  PyRef formed = PyRef::steal(PyObject_CallOneArg(form.get(), exception));
  if (!formed) PyErr_WriteUnraisable(form.get());
  return formed && PyExceptionInstance_Check(formed.get()) ? formed : PyRef::borrow(exception);
}

}  // namespace firesteel::capture
