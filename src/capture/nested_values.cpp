// Nests of containers: whether constants are all they hold, and the same nests with stand-ins in place of real tensors.
#include "capture/capture.h"
#include "capture/cpython/frame_shim.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

// A list that holds itself has no end.
constexpr int kDeepestNest = 100;
struct Nesting {
  explicit Nesting(int& depth) : depth(depth) { ++depth; }
  ~Nesting() { --depth; }
  int& depth;
};

}  // namespace

bool Capture::is_deep_constant(PyObject* value) {
  settle(value);
  if (is_guardable_constant(value)) return true;
  Nesting nesting(nesting_);
  if (nesting_ > kDeepestNest) return false;
  if (PyType_Check(value)) {
    if (const Source* source = source_of(value)) admit(value, source);  // by its identity
    return true;
  }
  if (is_sequence(value)) {
    consult(value);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (!is_deep_constant(PySequence_Fast_GET_ITEM(value, i))) return false;
    }
    return true;
  }
  if (PyAnySet_CheckExact(value)) {
    consult(value);
    return true;
  }
  if (PyTuple_Check(value) && is_made(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (!is_deep_constant(PyTuple_GET_ITEM(value, i))) return false;
    }
    return true;
  }
  if (!is_mapping(value)) return false;
  consult(value);
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *item = nullptr;
  while (PyDict_Next(value, &position, &key, &item)) {
    if (!is_guardable_constant(key) || !is_deep_constant(item)) return false;
  }
  return true;
}

namespace {

// Arithmetic and comparisons are the number's own, so that torch sees nothing but its value.
bool computes_as(PyTypeObject* type, PyTypeObject* number) {
  const PyNumberMethods &own = *type->tp_as_number, &plain = *number->tp_as_number;
  return type->tp_richcompare == number->tp_richcompare && own.nb_add == plain.nb_add &&
         own.nb_subtract == plain.nb_subtract && own.nb_multiply == plain.nb_multiply &&
         own.nb_true_divide == plain.nb_true_divide && own.nb_floor_divide == plain.nb_floor_divide &&
         own.nb_remainder == plain.nb_remainder && own.nb_power == plain.nb_power && own.nb_and == plain.nb_and &&
         own.nb_or == plain.nb_or && own.nb_xor == plain.nb_xor && own.nb_lshift == plain.nb_lshift &&
         own.nb_rshift == plain.nb_rshift && own.nb_matrix_multiply == plain.nb_matrix_multiply;
}

}  // namespace

PyRef Capture::number_of(PyObject* value) {
  const bool is_int = PyLong_Check(value);
  if (!(is_int || PyFloat_Check(value)) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
      PyBool_Check(value) || !computes_as(Py_TYPE(value), is_int ? &PyLong_Type : &PyFloat_Type))
    return {};
  const Source* source = source_of(value);
  if (source && python::is_enum_member(value)) add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
  return python::checked(is_int ? PyLong_Type.tp_as_number->nb_int(value)
                                : PyFloat_FromDouble(PyFloat_AS_DOUBLE(value)));
}

namespace {

// `for_torch`: numbers of classes over int and float become plain ones, as torch takes them.
PyRef with_stand_ins(Capture& capture, PyObject* value, bool for_torch, int depth = 0) {
  if (depth > kDeepestNest) capture.stop(BreakReason::Value, "a container that holds itself");
  if (python::is_tensor(value)) return capture.adopt(PyRef::borrow(value));
  capture.settle(value);
  if (PyRef number = for_torch ? capture.number_of(value) : PyRef()) return number;
  if (is_sequence(value)) {
    capture.consult(value);
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    PyRef items = python::checked(PyTuple_New(size));
    bool changed = false;
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyRef item = with_stand_ins(capture, PySequence_Fast_GET_ITEM(value, i), for_torch, depth + 1);
      changed = changed || item.get() != PySequence_Fast_GET_ITEM(value, i);
      PyTuple_SET_ITEM(items.get(), i, item.release());
    }
    if (!changed) return PyRef::borrow(value);
    return PyTuple_CheckExact(value) ? items : python::checked(PySequence_List(items.get()));
  }
  if (is_mapping(value)) {
    capture.consult(value);
    PyRef copy = python::checked(PyObject_CallMethod(value, "copy", nullptr));
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *item = nullptr;
    bool changed = false;
    while (PyDict_Next(value, &position, &key, &item)) {
      PyRef replaced = with_stand_ins(capture, item, for_torch, depth + 1);
      changed = changed || replaced.get() != item;
      python::check(PyDict_SetItem(copy.get(), key, replaced.get()) == 0);
    }
    return changed ? copy : PyRef::borrow(value);
  }
  // A container of a class of its own.
  if (PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value))
    capture.consult(value);
  return PyRef::borrow(value);
}

}  // namespace

PyRef Capture::substitute(PyObject* value) { return with_stand_ins(*this, value, /*for_torch=*/true); }

PyRef Capture::consult_deep(PyObject* value) {
  settle_deep(value);
  if (concrete || is_guardable_constant(value)) return PyRef::borrow(value);
  if (python::is_tensor(value)) return adopt(PyRef::borrow(value));
  if (PyAnySet_CheckExact(value)) {
    consult(value);
    return PyRef::borrow(value);
  }
  if (PyObject* dict = fs_view_dict(value)) {
    consult_deep(dict);
    return PyRef::borrow(value);
  }
  return with_stand_ins(*this, value, /*for_torch=*/false);
}

}  // namespace firesteel::capture
