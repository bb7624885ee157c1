// Which classes are Python's own to follow, and what a `super` object is made of.
#include <Python.h>

#include <string_view>

#include "capture/callables.h"
#include "python/errors.h"

namespace firesteel::capture {

using python::checked;

SuperParts parts_of_super(PyObject* object) {
  auto part = [&](const char* name) { return checked(PyObject_GenericGetAttr(object, interned(name).get())); };
  return {part("__thisclass__"), part("__self__"), part("__self_class__")};
}

bool is_python_class(PyTypeObject* type) {
  if (is_c_class(type)) return false;
  // All classes made by a class statement are taken down by one function of CPython's.
  static const destructor of_python = [] {
    PyRef abc = checked(PyImport_ImportModule("abc"));
    return reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(abc.get(), "ABC")).get())->tp_dealloc;
  }();
  for (PyTypeObject* base = type; base; base = base->tp_base) {
    const bool python = (base->tp_flags & Py_TPFLAGS_HEAPTYPE) && base->tp_dealloc == of_python;
    if (python) continue;
    return base == &PyBaseObject_Type || base == &PyDict_Type || base == &PyList_Type || base == &PyTuple_Type ||
           base == &PySet_Type || base == &PyFrozenSet_Type || base == &PyODict_Type || base == &PyLong_Type ||
           base == &PyFloat_Type || base == &PyUnicode_Type || PyExceptionClass_Check(base) ||
           std::string_view(base->tp_name) == "collections.defaultdict";
  }
  return false;
}

}  // namespace firesteel::capture
