// hash() and id(): of what existed before, guarded to be this very object.
#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

PyRef hash_of(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || Py_TYPE(args[0])->tp_hash == PyObject_HashNotImplemented)
    return args.call(callable);  // raises
  if (python::is_tensor(args[0]) && capture.real_of(args[0])) {
    PyRef real = PyRef::borrow(capture.real_of(args[0]));  // a tensor is hashed by its address
    capture.add_guard({GuardKind::Identity, capture.tensor_source(args[0]), real});
    return checked(PyLong_FromSsize_t(PyObject_Hash(real.get())));
  }
  if (args.values.size() == 1 && Py_TYPE(args[0])->tp_hash == PyBaseObject_Type.tp_hash && capture.source_of(args[0])) {
    capture.add_guard({GuardKind::Identity, capture.source_of(args[0]), args.values[0]});
    return args.call(callable);
  }
  if (args.values.size() != 1 || !capture.is_deep_constant(args[0])) {
    if (!is_python_class(Py_TYPE(args[0])) || Py_TYPE(args[0])->tp_hash == PyBaseObject_Type.tp_hash)
      refuse(capture, callable);
    watch_hash(capture, args[0]);
  }
  return args.call(callable);
}

// The address of what existed before, which must then be this very object.
PyRef address(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() == 1 && python::is_tensor(args[0])) {
    PyObject* real = capture.real_of(args[0]);
    if (!real) refuse(capture, callable);
    capture.add_guard({GuardKind::Identity, capture.tensor_source(args[0]), PyRef::borrow(real)});
    return checked(PyLong_FromVoidPtr(real));
  }
  if (args.values.size() == 1 && (args[0] == Py_None || PyBool_Check(args[0]) || args[0] == Py_Ellipsis))
    return args.call(callable);  // one object each, for ever
  const Source* source = args.values.size() == 1 ? capture.source_of(args[0]) : nullptr;
  if (!source || is_number(args[0])) refuse(capture, callable);
  capture.add_guard({GuardKind::Identity, source, args.values[0]});
  return args.call(callable);
}

}  // namespace firesteel::capture
