// Asks the module abc, which counts registrations.
#include "guards/registrations.h"

#include "python/errors.h"

namespace firesteel::guards {
namespace {

PyObject* of_abc(const char* name) {
  python::PyRef module = python::checked(PyImport_ImportModule("abc"));
  return python::checked(PyObject_GetAttrString(module.get(), name)).release();
}

}  // namespace

uint64_t registrations() {
  static PyObject* ask = of_abc("get_cache_token");
  python::PyRef token = python::PyRef::steal(PyObject_CallNoArgs(ask));
  const uint64_t number = token ? PyLong_AsUnsignedLongLongMask(token.get()) : 0;
  if (PyErr_Occurred()) PyErr_Clear();
  return number;
}

bool is_abstract_class(PyObject* type) {
  static auto* meta = reinterpret_cast<PyTypeObject*>(of_abc("ABCMeta"));
  return PyObject_TypeCheck(type, meta);
}

bool are_still_strangers(const Strangers& pair) {
  const int answer = PyObject_IsSubclass(pair.first, pair.second);
  if (answer < 0) PyErr_Clear();
  return answer == 0;
}

}  // namespace firesteel::guards
