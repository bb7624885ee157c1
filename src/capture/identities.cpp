// hash() and id(): of what existed before, guarded to be this very object; of what was made inside, numbers to compare.
#include "capture/identities.h"

#include <unordered_map>

#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

namespace {

// One capture runs at a time; each number is held, so that no other takes its place.
std::unordered_map<PyObject*, PyRef>& made_addresses() {
  static auto* numbers = new std::unordered_map<PyObject*, PyRef>;
  return *numbers;
}

}  // namespace

PyRef new_made_address(Capture& capture, PyRef number) {
  PyRef own = checked(_PyLong_Copy(reinterpret_cast<PyLongObject*>(number.get())));
  made_addresses().emplace(own.get(), own);
  return capture.made(std::move(own));
}

bool is_made_address(PyObject* value) { return !made_addresses().empty() && made_addresses().count(value) != 0; }

void forget_made_addresses() { made_addresses().clear(); }

void stop_at_made_address(Capture& capture, PyObject* value) {
  if (is_made_address(value)) capture.stop(BreakReason::Value, "computing with the address of an object made here");
}

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
  stop_at_made_address(capture, args[0]);
  if (Py_TYPE(args[0])->tp_hash == PyBaseObject_Type.tp_hash && capture.is_made(args[0]))
    return new_made_address(capture, args.call(callable));
  if (args.values.size() != 1 || !capture.is_deep_constant(args[0])) {
    if (!is_python_class(Py_TYPE(args[0])) || Py_TYPE(args[0])->tp_hash == PyBaseObject_Type.tp_hash)
      refuse(capture, callable);
    watch_hash(capture, args[0]);
  }
  return args.call(callable);
}

// The address of what existed before, which must then be this very object.
PyRef address(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || args.keyword_count()) return args.call(callable);  // raises
  if (python::is_tensor(args[0])) {
    PyObject* real = capture.real_of(args[0]);
    if (!real) return new_made_address(capture, args.call(callable));
    capture.add_guard({GuardKind::Identity, capture.tensor_source(args[0]), PyRef::borrow(real)});
    return checked(PyLong_FromVoidPtr(real));
  }
  if (args[0] == Py_None || PyBool_Check(args[0]) || args[0] == Py_Ellipsis)
    return args.call(callable);  // one object each, for ever
  const Source* source = capture.source_of(args[0]);
  if (is_number(args[0])) {
    // Numbers from outside have objects of their own here; CPython shares small ones.
    capture.settle(args[0]);
    int overflow = 0;
    const long value = PyLong_CheckExact(args[0]) ? PyLong_AsLongAndOverflow(args[0], &overflow) : 0;
    const bool shared = PyLong_CheckExact(args[0]) && !overflow && value >= -5 && value <= 256;
    if (shared) args.values[0] = checked(PyLong_FromLong(value));
    return new_made_address(capture, args.call(callable));
  }
  if (!source) return new_made_address(capture, args.call(callable));
  capture.add_guard({GuardKind::Identity, source, args.values[0]});
  return args.call(callable);
}

// The number of the thread: another one may make the call.
PyRef of_this_thread(Capture& capture, PyObject* callable, CallArgs& args) {
  return new_made_address(capture, args.call(callable));
}

}  // namespace firesteel::capture
