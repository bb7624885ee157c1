// Imports of ours that come to no code of the program's, whatever it has put in the place of `__import__`.
//
// CPython's PyImport_ImportModule calls the `__import__` of the frame that runs. During a capture the frames of one
// written in Python would be followed, in the middle of what asks for the module: the linker puts this in its place.
#include <Python.h>

#include "python/py_ref.h"

using firesteel::python::PyRef;

extern "C" PyObject* __wrap_PyImport_ImportModule(const char* name) {
  const PyRef text = PyRef::steal(PyUnicode_FromString(name));
  if (!text) return nullptr;
  PyRef module = PyRef::steal(PyImport_GetModule(text.get()));
  if (PyErr_Occurred()) return nullptr;
  if (module && module.get() != Py_None) return module.release();
  const PyRef wanted = PyRef::steal(Py_BuildValue("(s)", "__name__"));  // of `a.b`, the module `b`
  return wanted ? PyImport_ImportModuleLevelObject(text.get(), nullptr, nullptr, wanted.get(), 0) : nullptr;
}
