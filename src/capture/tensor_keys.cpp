// Looks for tensors among keys.
#include "capture/tensor_keys.h"

#include <fmt/format.h>

#include "capture/callables.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

constexpr int kDeepest = 8;

bool holds_tensor(PyObject* value, int depth = 0) {
  if (python::is_tensor(value)) return true;
  if (depth == kDeepest) return false;
  if (PyDict_Check(value)) {
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    while (PyDict_Next(value, &position, &key, nullptr)) {
      if (holds_tensor(key, depth + 1)) return true;
    }
    return false;
  }
  if (PyAnySet_Check(value)) {
    Py_ssize_t position = 0;
    Py_hash_t hash = 0;
    PyObject* key = nullptr;
    while (_PySet_NextEntry(value, &position, &key, &hash)) {
      if (holds_tensor(key, depth + 1)) return true;
    }
    return false;
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (holds_tensor(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

void check_key(Capture& capture, PyObject* container, PyObject* key) {
  if (capture.concrete || !capture.source_of(container) || !holds_tensor(key)) return;
  capture.stop(BreakReason::Value, fmt::format("a tensor is a key of a {} from outside", Py_TYPE(container)->tp_name));
}

}  // namespace

void watch_key(Capture& capture, PyObject* container, PyObject* key) {
  watch_hash(capture, key);
  check_key(capture, container, key);
}

PyRef asked_key(Capture& capture, PyObject* container, PyObject* key) {
  PyObject* real = nullptr;
  if (!capture.concrete && python::is_tensor(key) && capture.source_of(container) &&
      !capture.journal.touched(container))
    real = capture.real_of(key);
  if (!real) {
    watch_key(capture, container, key);
    return PyRef::borrow(key);
  }
  capture.add_guard({GuardKind::Identity, capture.tensor_source(key), PyRef::borrow(real)});
  return PyRef::borrow(real);
}

void watch_keys(Capture& capture, PyObject* container, PyObject* items) {
  if (PyDict_Check(items) || PyAnySet_Check(items)) return check_key(capture, container, items);
  if (!PyTuple_Check(items) && !PyList_Check(items)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    const bool pair = PyDict_Check(container) && PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 2;
    check_key(capture, container, pair ? PyTuple_GET_ITEM(item, 0) : item);
  }
}

}  // namespace firesteel::capture
