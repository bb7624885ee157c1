// Makes the state of optimizers as their first step would; how, Python says (python/firesteel/_optimizer_states.py).
#include "capture/optimizers.h"

#include "aot/dispatch_keys.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

bool initialize_optimizer(Capture& capture, PyObject* callable, const CallArgs& args) {
  static PyObject* init = interned("_init_group").release();
  static PyObject* state_name = interned("state").release();
  const bool is_init = PyFunction_Check(callable) && reinterpret_cast<PyFunctionObject*>(callable)->func_name == init;
  if (!is_init || args.positional() < 2) return false;
  PyObject* optimizer = args[0];
  // What the code has written so far would be put back over it.
  if (!capture.data_hints || !capture.journal.empty() || !capture.source_of(optimizer)) return false;
  PyObject* dict = guards::instance_dict(optimizer);
  if (!dict || !PyDict_GetItemWithError(dict, state_name)) return false;
  PyRef done;
  {
    Suspended suspended(capture);
    OutsideTrace outside;
    PyRef maker = python::checked(PyImport_ImportModule("firesteel._optimizer_states"));
    PyRef named = args.dict();
    done = PyRef::steal(PyObject_CallMethod(maker.get(), "initialize", "OO", args.tuple().get(),
                                            named ? named.get() : Py_None));
  }
  if (!done) PyErr_Clear();  // its own call says what is wrong
  if (done.get() != Py_True) return false;
  capture.data_hints->changed = true;
  return true;
}

bool is_capturable_switch(const Capture& capture, PyObject* group, PyObject* key) {
  static PyObject* name = interned("capturable").release();
  static PyObject* params_name = interned("params").release();
  if (key != name || !capture.keeps_stacks || !PyDict_CheckExact(group)) return false;
  if (PyDict_GetItemWithError(group, name) != Py_False) return false;
  PyObject* params = PyDict_GetItemWithError(group, params_name);
  if (!params || !PyList_CheckExact(params)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); ++i) {
    PyObject* param = PyList_GET_ITEM(params, i);
    if (!python::is_tensor(param) || !python::unpack(param).device().is_cpu()) return false;
  }
  return true;
}

}  // namespace firesteel::capture
