// Containers of tensors, compared: CPython asks no object whether it is equal to itself.
#include "capture/comparisons.h"

#include "capture/callables.h"
#include "capture/python_forms.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

constexpr int kDeepest = 12;

// Item by item, by C code alone.
bool are_compared(PyObject* a, PyObject* b) {
  return (is_sequence(a) && Py_TYPE(a) == Py_TYPE(b)) || (is_mapping(a) && is_mapping(b));
}

// A list is equal to no tuple, whatever the two hold.
bool differ_in_kind(PyObject* a, PyObject* b) {
  auto is_one = [](PyObject* value) { return is_sequence(value) || is_mapping(value); };
  return is_one(a) && is_one(b) && !are_compared(a, b);
}

// Nothing: data decides, or the values are none that are compared item by item.
std::optional<bool> equal(Capture& capture, PyObject* a, PyObject* b, int depth);

std::optional<bool> equal_items(Capture& capture, PyObject* a, PyObject* b, int depth) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(a);
  if (size != PySequence_Fast_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const auto same = equal(capture, PySequence_Fast_GET_ITEM(a, i), PySequence_Fast_GET_ITEM(b, i), depth);
    if (!same || !*same) return same;
  }
  return true;
}

std::optional<bool> equal_dicts(Capture& capture, PyObject* a, PyObject* b, int depth) {
  if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
  if (PyODict_Check(a) && PyODict_Check(b)) {
    const PyRef order = python::checked(PySequence_List(a)), other = python::checked(PySequence_List(b));
    const auto same = equal_items(capture, order.get(), other.get(), depth);
    if (!same || !*same) return same;
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(a, &position, &key, &value)) {
    if (!is_guardable_constant(key)) return {};
    PyObject* other = PyDict_GetItemWithError(b, key);
    python::check(other || !PyErr_Occurred());
    if (!other) return false;
    const auto same = equal(capture, value, other, depth);
    if (!same || !*same) return same;
  }
  return true;
}

std::optional<bool> equal(Capture& capture, PyObject* a, PyObject* b, int depth) {
  if (a == b) return true;
  if (python::is_tensor(a) || python::is_tensor(b) || depth > kDeepest) return {};
  if (!holds_tensor(a) && !holds_tensor(b)) {
    for (PyObject* value : {a, b}) watch_comparison(capture, value, "eq");
    const int same = PyObject_RichCompareBool(a, b, Py_EQ);
    python::check(same >= 0);
    return same == 1;
  }
  if (differ_in_kind(a, b)) return false;
  if (!are_compared(a, b)) return {};
  capture.consult(a);
  capture.consult(b);
  return PyDict_Check(a) ? equal_dicts(capture, a, b, depth + 1) : equal_items(capture, a, b, depth + 1);
}

}  // namespace

std::optional<bool> equal_without_data(Capture& capture, PyObject* a, PyObject* b) {
  if (!(are_compared(a, b) || differ_in_kind(a, b)) || !(holds_tensor(a) || holds_tensor(b))) return {};
  return equal(capture, a, b, 0);
}

}  // namespace firesteel::capture
