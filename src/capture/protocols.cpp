// Truth, length, iteration and items: Python's protocols on values that may have come from outside.
#include <fmt/format.h>

#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

bool is_plain_iterator(PyObject* object) {
  static const auto* types = [] {
    auto* names = new std::unordered_set<std::string_view>{"list_iterator",
                                                           "tuple_iterator",
                                                           "range_iterator",
                                                           "str_iterator",
                                                           "dict_keyiterator",
                                                           "dict_valueiterator",
                                                           "dict_itemiterator",
                                                           "list_reverseiterator",
                                                           "reversed",
                                                           "enumerate",
                                                           "zip",
                                                           "odict_iterator",
                                                           "bytes_iterator",
                                                           "longrange_iterator",
                                                           "str_ascii_iterator",
                                                           "dict_reversekeyiterator",
                                                           "set_iterator"};
    return names;
  }();
  return types->count(Py_TYPE(object)->tp_name) != 0;
}

bool is_view(PyObject* object) {
  return PyDictKeys_Check(object) || PyDictValues_Check(object) || PyDictItems_Check(object) ||
         std::string_view(Py_TYPE(object)->tp_name).starts_with("odict_");
}

PyRef unbind(Capture& capture, PyObject* tensor) {
  static PyObject* name = interned("unbind").release();
  PyObject* method = _PyType_Lookup(Py_TYPE(tensor), name);
  return capture.torch_call(method, "torch.Tensor.unbind", checked(PyTuple_Pack(1, tensor)));
}

}  // namespace

PyRef call_special(Capture& capture, PyObject* object, const char* name, std::vector<PyRef> args) {
  PyRef key = interned(name);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* found = _PyType_Lookup(type, key.get());
  capture.guard_class_attribute(type, key.get(), found);
  if (!found || !PyFunction_Check(found)) {
    capture.stop(BreakReason::Value, fmt::format("a {} has no {} that can be followed", type->tp_name, name));
  }
  capture.admit(found, capture.sources.pinned(found, fmt::format("{}.{}", type->tp_name, name)));
  CallArgs given;
  given.values.push_back(PyRef::borrow(object));
  for (PyRef& arg : args) given.values.push_back(std::move(arg));
  return call(capture, found, std::move(given));
}

bool is_true(Capture& capture, PyObject* value) {
  if (value == Py_True) return true;
  if (value == Py_False || value == Py_None) return false;
  if (python::is_tensor(value)) capture.stop(BreakReason::DataDependent, "a tensor decides a branch");
  if (is_guardable_constant(value)) {
    const int truth = PyObject_IsTrue(value);
    python::check(truth >= 0);
    return truth == 1;
  }
  if (is_sequence(value) || is_mapping(value)) {
    capture.guard_length(value);
    return PyObject_Length(value) > 0;
  }
  PyTypeObject* type = Py_TYPE(value);
  const bool has_truth = type->tp_as_number && type->tp_as_number->nb_bool;
  const bool has_length = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                          (type->tp_as_sequence && type->tp_as_sequence->sq_length);
  if (!has_truth && !has_length) return true;
  if (!has_truth && (type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return length_of(capture, value) > 0;
  capture.stop(BreakReason::Value, fmt::format("the truth of a {} is asked", type->tp_name));
}

Py_ssize_t length_of(Capture& capture, PyObject* object) {
  Py_ssize_t length = -1;
  if (python::is_tensor(object) || is_guardable_constant(object)) {
    length = PyObject_Length(object);
  } else if (is_sequence(object) || is_mapping(object)) {
    capture.guard_length(object);
    length = PyObject_Length(object);
  } else if (is_view(object) || (PyAnySet_CheckExact(object) && capture.is_made(object))) {
    length = PyObject_Length(object);
  } else {
    PyRef answer = call_special(capture, object, "__len__");
    length = PyLong_AsSsize_t(answer.get());
  }
  if (length < 0) python::throw_python_error();
  return length;
}

PyRef get_iterator(Capture& capture, PyObject* value) {
  if (is_plain_iterator(value)) {
    if (!capture.is_made(value)) capture.stop(BreakReason::Write, "stepping an iterator");
    return PyRef::borrow(value);
  }
  if (python::is_tensor(value)) return get_iterator(capture, unbind(capture, value).get());
  const bool known = is_guardable_constant(value) || is_sequence(value) || is_mapping(value) || is_view(value) ||
                     PyRange_Check(value) || (PyTuple_Check(value) && !capture.source_of(value)) ||
                     (PyAnySet_CheckExact(value) && capture.is_made(value));
  if (known) {
    capture.consult(value);
    return capture.made(checked(PyObject_GetIter(value)));
  }
  if (Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    PyRef iterator = call_special(capture, value, "__iter__");
    if (is_plain_iterator(iterator.get())) return iterator;
  }
  capture.stop(BreakReason::Value, fmt::format("a {} is iterated", Py_TYPE(value)->tp_name));
}

PyRef get_item(Capture& capture, PyObject* object, PyObject* key) {
  if (python::is_tensor(object)) {
    return capture.torch_call(operator_function("getitem"), "operator.getitem", checked(PyTuple_Pack(2, object, key)));
  }
  if (is_guardable_constant(object) && capture.is_deep_constant(key)) return checked(PyObject_GetItem(object, key));
  const Source* source = capture.source_of(object);
  if (PyTuple_Check(object) || PyList_CheckExact(object)) {
    if (!is_guardable_constant(key))
      capture.stop(BreakReason::Value, fmt::format("a {} is an index", Py_TYPE(key)->tp_name));
    if (source && !is_sequence(object))
      capture.stop(BreakReason::Value, fmt::format("an item of a {} is read", Py_TYPE(object)->tp_name));
    if (PyLong_CheckExact(key) && source) {
      capture.guard_length(object);
      PyRef value = checked(PyObject_GetItem(object, key));
      Py_ssize_t index = PyLong_AsSsize_t(key);
      if (index < 0) index += PyObject_Length(object);
      return capture.admit(value.get(), capture.sources.item(source, index));
    }
    if (source) capture.consult(object);
    PyRef value = checked(PyObject_GetItem(object, key));
    if (PySlice_Check(key)) return capture.made(std::move(value));
    return capture.adopt(std::move(value));
  }
  if (is_mapping(object)) {
    if (!is_guardable_constant(key))
      capture.stop(BreakReason::Value, fmt::format("a {} is a dict's key", Py_TYPE(key)->tp_name));
    PyRef value = checked(PyObject_GetItem(object, key));
    return source ? capture.admit(value.get(), capture.sources.item(source, key)) : capture.adopt(std::move(value));
  }
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyType_Check(object)) {
    return call_special(capture, object, "__getitem__", {PyRef::borrow(key)});
  }
  capture.stop(BreakReason::Value, fmt::format("an item of a {} is read", Py_TYPE(object)->tp_name));
}

void set_item(Capture& capture, PyObject* object, PyObject* key, PyObject* value) {
  if (python::is_tensor(object)) {
    capture.torch_call(operator_function("setitem"), "operator.setitem", checked(PyTuple_Pack(3, object, key, value)));
    return;
  }
  if (!capture.is_made(object) || !(PyList_CheckExact(object) || PyDict_CheckExact(object))) {
    capture.stop(BreakReason::Write, "an item assignment");
  }
  if (!is_guardable_constant(key))
    capture.stop(BreakReason::Value, fmt::format("a {} is a key", Py_TYPE(key)->tp_name));
  if (PySlice_Check(key)) capture.consult(value);
  python::check(PyObject_SetItem(object, key, value) == 0);
}

}  // namespace firesteel::capture
