// copy.copy, copy.deepcopy and what they ask of a class.
#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr int kDeepestCopy = 16;

// Code of the program's own says how objects of the class are copied; or none does, which is guarded.
bool copies_by_own_code(Capture& capture, PyTypeObject* type) {
  for (const char* name : {"__copy__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__",
                           "__getnewargs_ex__", "__getnewargs__"}) {
    PyRef key = interned(name);
    PyObject* found = _PyType_Lookup(type, key.get());
    capture.guard_class_attribute(type, key.get(), found);
    if (found && PyFunction_Check(found)) return true;
  }
  return false;
}

// Guards all that is in an object; false where there is something a copy must not be made of without being seen.
bool guard_whole(Capture& capture, PyObject* value, int depth = 0) {
  capture.settle(value);
  if (is_number(value)) return true;
  if (is_guardable_constant(value) || PyType_Check(value) || PyFunction_Check(value) || PyModule_Check(value)) {
    if (const Source* source = capture.source_of(value)) capture.admit(value, source);
    return true;
  }
  if (python::is_tensor(value) || depth > kDeepestCopy || is_nn_module(value)) return false;
  capture.consult(value);
  if (PyList_Check(value) || PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (!guard_whole(capture, PySequence_Fast_GET_ITEM(value, i), depth + 1)) return false;
    }
  } else if (PyDict_Check(value)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, nullptr, &item)) {
      if (!guard_whole(capture, item, depth + 1)) return false;
    }
  } else if (PyAnySet_Check(value)) {
    // all of it is guarded
  } else if (!is_python_class(Py_TYPE(value))) {
    return false;
  }
  if (!is_python_class(Py_TYPE(value))) return true;
  if (copies_by_own_code(capture, Py_TYPE(value))) return false;
  PyObject* dict = fs_instance_dict(value);
  if (!dict) {  // nothing was ever set on it
    const bool container = PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value);
    return container && Py_TYPE(value)->tp_dictoffset && !capture.source_of(value);
  }
  if (const Source* source = capture.source_of(value)) {
    capture.remember(dict, capture.sources.step(source, AccessKind::InstanceDict));
  }
  return guard_whole(capture, dict, depth + 1);
}

}  // namespace

// copy.copy, copy.deepcopy: of what holds no tensor, made for real.
PyRef copy_of(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || !guard_whole(capture, args[0])) {
    return capture.adopt(args.call(callable));
  }
  Suspended suspended(capture);
  return capture.made(args.call(callable));
}

// copyreg._slotnames: keeps what it finds on the class, as it does in eager code.
PyRef slot_names(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || !PyType_Check(args[0])) return args.call(callable);
  Suspended suspended(capture);
  PyRef names = args.call(callable);
  auto* type = reinterpret_cast<PyTypeObject*>(args[0]);
  PyRef key = interned("__slotnames__");
  capture.guard_class_attribute(type, key.get(), _PyType_Lookup(type, key.get()));
  return capture.made(checked(PySequence_List(names.get())));
}

}  // namespace firesteel::capture
