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

bool is_text(PyObject* value) { return value == Py_None || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value); }

// A list is equal to no tuple, whatever the two hold, and to no number; a tensor is equal to no text.
bool differ_in_kind(PyObject* a, PyObject* b) {
  auto is_one = [](PyObject* value) { return is_sequence(value) || is_mapping(value); };
  auto is_single = [](PyObject* value) { return is_guardable_constant(value) && !PyTuple_Check(value); };
  if ((python::is_tensor(a) && is_text(b)) || (python::is_tensor(b) && is_text(a))) return true;
  if ((is_one(a) && is_single(b)) || (is_one(b) && is_single(a))) return true;
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
  if (differ_in_kind(a, b)) return false;
  if (python::is_tensor(a) || python::is_tensor(b) || depth > kDeepest) return {};
  if (!holds_tensor(a) && !holds_tensor(b)) {
    for (PyObject* value : {a, b}) watch_comparison(capture, value, "eq");
    const int same = PyObject_RichCompareBool(a, b, Py_EQ);
    python::check(same >= 0);
    return same == 1;
  }
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

PyRef search_by_items(Capture& capture, std::string_view method, CallArgs& args) {
  const bool counts = method == "count", asks = method == "__contains__";
  if (!counts && !asks && method != "index" && method != "remove") return {};
  PyObject* self = args[0];
  if (args.values.size() != 2 || (!PyList_Check(self) && !PyTuple_Check(self))) return {};
  if (!holds_tensor(self) && !holds_tensor(args[1])) return {};
  capture.consult(self);
  Py_ssize_t found = 0, place = 0;
  for (; place < PySequence_Fast_GET_SIZE(self); ++place) {
    PyRef item = PyRef::borrow(PySequence_Fast_GET_ITEM(self, place));
    // A container from outside holds the tensors themselves, which are told by their stand-ins.
    if (python::is_tensor(item.get()) && python::is_tensor(args[1])) item = capture.adopt(std::move(item));
    const std::optional<bool> same = equal(capture, item.get(), args[1], 0);
    if (!same) capture.stop(BreakReason::DataDependent, "a tensor is compared with the items of a container");
    found += *same;
    if (*same && !counts) break;
  }
  if (counts) return python::checked(PyLong_FromSsize_t(found));
  if (asks) return PyRef::borrow(found ? Py_True : Py_False);
  if (!found) {
    PyErr_Format(PyExc_ValueError, "%s.%s(x): x not in %s", Py_TYPE(self)->tp_name, std::string(method).c_str(),
                 Py_TYPE(self)->tp_name);
    python::throw_python_error();
  }
  if (method == "index") return python::checked(PyLong_FromSsize_t(place));
  capture.before_write(self);
  python::check(PySequence_DelItem(self, place) == 0);
  return PyRef::borrow(Py_None);
}

}  // namespace firesteel::capture
