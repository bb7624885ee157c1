// Hands a lazy module inputs to look at; what it may look at, Python says (python/firesteel/_lazy_modules.py).
#include "capture/lazy_modules.h"

#include "aot/dispatch_keys.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

bool initialize_lazy_module(Capture& capture, PyObject* module, const CallArgs& args) {
  static PyObject* hook = interned("_initialize_hook").release();
  if (!is_nn_module(module) || !capture.source_of(module) || !capture.data_hints) return false;
  PyObject* dict = guards::instance_dict(module);
  // What the code has written so far would be put back over it.
  if (!dict || !PyDict_GetItemWithError(dict, hook) || !capture.journal.empty()) return false;
  CallArgs given = args;
  for (PyRef& value : given.values) {
    PyObject* real = python::is_tensor(value.get()) ? capture.real_of(value.get()) : nullptr;
    if (real) value = PyRef::borrow(real);
  }
  PyRef done;
  {
    Suspended suspended(capture);
    OutsideTrace outside;
    PyRef maker = python::checked(PyImport_ImportModule("firesteel._lazy_modules"));
    PyRef named = given.dict();
    done = PyRef::steal(PyObject_CallMethod(maker.get(), "initialize", "OOO", module, given.tuple().get(),
                                            named ? named.get() : Py_None));
  }
  if (!done) PyErr_Clear();  // its own call says what is wrong
  if (done.get() != Py_True) return false;
  capture.data_hints->changed = true;
  return true;
}

}  // namespace firesteel::capture
