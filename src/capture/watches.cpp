// Guards for what C code is about to read of its own accord: operators, comparisons, hashes, texts.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "capture/arrays.h"
#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "capture/identities.h"
#include "capture/tensor_text.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

bool is_container(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value);
}

void watch_class(Capture& capture, PyTypeObject* type, const std::string& name) {
  PyRef key = python::checked(PyUnicode_InternFromString(name.c_str()));
  PyObject* found = _PyType_Lookup(type, key.get());
  capture.guard_class_attribute(type, key.get(), found);
  if (found && PyFunction_Check(found))
    capture.admit(found, capture.sources.pinned(found, fmt::format("{}.{}", type->tp_name, name)));
}

// True where nothing is left to look at: constants, and things that are known by their identity.
bool is_plain(PyObject* value) {
  return is_guardable_constant(value) || PyType_Check(value) || PyModule_Check(value) || PyFunction_Check(value) ||
         PyCFunction_Check(value) || PyMethod_Check(value) || is_torch_op(value) || value == Py_NotImplemented ||
         Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyWrapperDescr_Type) ||
         Py_IS_TYPE(value, &PyGetSetDescr_Type);
}

template <class F>
void each_item(Capture& capture, PyObject* container, F&& visit) {
  capture.consult(container);
  if (PyList_Check(container) || PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) visit(PySequence_Fast_GET_ITEM(container, i));
  } else if (PyDict_Check(container)) {
    Py_ssize_t position = 0;
    PyObject* value = nullptr;
    while (PyDict_Next(container, &position, nullptr, &value)) visit(value);
  }
}

// An enum that C++ has made: its members never change.
bool is_enum_of_pybind(PyTypeObject* type) {
  return std::string_view(Py_TYPE(type)->tp_name).ends_with("pybind11_type") &&
         PyDict_GetItemString(fs_type_dict(type), "__entries");
}

// `list[int]`, `int | None`: never changed once they are made.
bool is_type_form(PyObject* value) {
  static PyTypeObject* either = [] {
    PyRef module = python::checked(PyImport_ImportModule("types"));
    return reinterpret_cast<PyTypeObject*>(
        python::checked(PyObject_GetAttrString(module.get(), "UnionType")).release());
  }();
  return PyObject_TypeCheck(value, &Py_GenericAliasType) || PyObject_TypeCheck(value, either);
}

constexpr size_t kDeepest = 12;

// `compares`: what the value is may decide, not only what its class does with it.
void watch_nested(Capture& capture, PyObject* value, const std::vector<std::string>& methods, const char* what,
                  size_t depth, bool compares) {
  capture.settle(value);
  if (compares && PyFunction_Check(value)) capture.tell_apart(value);
  if (compares && PyMethod_Check(value)) {
    for (PyObject* part : {PyMethod_GET_FUNCTION(value), PyMethod_GET_SELF(value)})
      watch_nested(capture, part, methods, what, depth, compares);
  }
  if (is_plain(value)) return;
  if (is_type_form(value)) {
    if (const Source* source = capture.source_of(value))
      capture.add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
    return;
  }
  if (is_array_number(value)) {
    capture.adopt(PyRef::borrow(value));  // by its value
    return;
  }
  if (python::is_tensor(value)) {
    capture.stop(BreakReason::DataDependent, fmt::format("{} of a container of tensors", what));
  }
  if (is_container(value) && depth < kDeepest) {
    each_item(capture, value, [&](PyObject* item) { watch_nested(capture, item, methods, what, depth + 1, compares); });
    if (is_c_class(Py_TYPE(value))) return;
  }
  if (PyObject* dict = fs_view_dict(value)) return capture.consult(dict);
  if (is_python_class(Py_TYPE(value)) || PyExceptionInstance_Check(value)) {
    for (const std::string& method : methods) watch_class(capture, Py_TYPE(value), method);
    if (compares) capture.tell_apart(value);
    return;
  }
  if (capture.is_made(value) && is_c_class(Py_TYPE(value))) return;
  if (is_enum_of_pybind(Py_TYPE(value))) return;
  // A partial and the like: each is equal to itself alone.
  if (compares && Py_TYPE(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
      Py_TYPE(value)->tp_hash == PyBaseObject_Type.tp_hash && is_c_class(Py_TYPE(value)))
    return capture.tell_apart(value);
  capture.stop(BreakReason::Value, fmt::format("{} of a {}", what, Py_TYPE(value)->tp_name));
}

// An address would be that of an object of the capture.
bool is_written_by_address(PyObject* value) {
  return PyFunction_Check(value) || PyMethod_Check(value) || PyCFunction_Check(value) ||
         (Py_TYPE(value)->tp_repr == PyBaseObject_Type.tp_repr && Py_TYPE(value)->tp_str == PyBaseObject_Type.tp_str);
}

// Thrown where a capture cannot know the text of a value.
struct NoText {
  BreakReason reason;
  std::string what;
};

// A text holds those of all that its object holds; `around`: what it is written in.
void watch_text_within(Capture& capture, PyObject* value, std::vector<PyObject*>& around) {
  if (std::find(around.begin(), around.end(), value) != around.end()) return;  // written as `[...]`
  if (is_tensor_text(value)) throw NoText{BreakReason::DataDependent, "a tensor is written into a string"};
  capture.settle(value);
  if (is_guardable_constant(value) || PyType_Check(value) || PyModule_Check(value) || is_torch_op(value) ||
      Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyWrapperDescr_Type) || value == Py_NotImplemented)
    return;
  if (python::is_tensor(value)) throw NoText{BreakReason::DataDependent, "the text of a container of tensors"};
  auto refuse = [&] { throw NoText{BreakReason::Value, fmt::format("the text of a {}", Py_TYPE(value)->tp_name)}; };
  if (is_written_by_address(value) || is_made_address(value)) refuse();
  PyObject* viewed = fs_view_dict(value);
  PyObject* container = viewed ? viewed : value;
  if (is_container(container)) {
    if (around.size() == kDeepest) refuse();
    around.push_back(value);
    auto look = [&](PyObject* item) { watch_text_within(capture, item, around); };
    each_item(capture, container, look);
    if (PyDict_Check(container)) {
      Py_ssize_t position = 0;
      PyObject* key = nullptr;
      while (PyDict_Next(container, &position, &key, nullptr)) look(key);
    } else if (PyAnySet_Check(container)) {
      const PyRef items = python::checked(PySequence_List(container));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) look(PyList_GET_ITEM(items.get(), i));
    }
    around.pop_back();
    if (viewed || is_c_class(Py_TYPE(value))) return;
  }
  if (guards::is_plain_deque(value) && around.size() < kDeepest) {
    capture.consult(value);
    const PyRef items = python::checked(PySequence_List(value));
    around.push_back(value);
    watch_text_within(capture, items.get(), around);
    around.pop_back();
    return;
  }
  // What an exception was made with can be changed unseen.
  if (PyExceptionInstance_Check(value) && !capture.is_made(value)) refuse();
  if (is_python_class(Py_TYPE(value)) || PyExceptionInstance_Check(value)) {
    for (const char* method : {"__str__", "__repr__", "__format__"}) watch_class(capture, Py_TYPE(value), method);
    return;
  }
  // What holds no objects is written as it is.
  const bool is_leaf = capture.is_made(value) && is_c_class(Py_TYPE(value)) && !PyType_IS_GC(Py_TYPE(value));
  if (!is_leaf) refuse();
}

}  // namespace

void watch_operator(Capture& capture, PyObject* value, const char* operation) {
  capture.settle_deep(value);
  if (capture.concrete || is_plain(value)) return;
  std::string name = operation;
  if (name.back() == '_') name.pop_back();  // and_, or_
  if (is_container(value)) {
    capture.consult(value);
    if (is_c_class(Py_TYPE(value))) return;
  }
  std::vector<std::string> methods = {fmt::format("__{}__", name), fmt::format("__r{}__", name)};
  if (name.size() > 2 && name[0] == 'i' && name != "invert") methods.push_back(fmt::format("__{}__", name.substr(1)));
  const bool compares = name == "eq" || name == "ne";
  watch_nested(capture, value, methods, fmt::format("`{}`", operation).c_str(), kDeepest, compares);
}

void watch_comparison(Capture& capture, PyObject* value, const char* operation) {
  if (capture.concrete) return;
  watch_nested(capture, value, {fmt::format("__{}__", operation), "__eq__", "__lt__", "__gt__", "__le__", "__ge__"},
               "a comparison", 0, /*compares=*/true);
}

void watch_hash(Capture& capture, PyObject* value) {
  capture.settle_deep(value);
  if (capture.concrete || python::is_tensor(value)) return;
  if (is_plain(value) && !PyFunction_Check(value) && !PyMethod_Check(value)) return;
  if (PyTuple_CheckExact(value)) {
    each_item(capture, value, [&](PyObject* item) { watch_hash(capture, item); });
    return;
  }
  if (Py_TYPE(value)->tp_hash == PyObject_HashNotImplemented) return;  // raises
  if (PyFrozenSet_Check(value)) capture.consult(value);
  if (PyFrozenSet_CheckExact(value)) return;
  watch_nested(capture, value, {"__hash__", "__eq__"}, "the hash", kDeepest - 1, /*compares=*/true);
}

void watch_text(Capture& capture, PyObject* value) {
  if (capture.concrete) return;
  capture.settle_deep(value);
  if (python::is_tensor(value)) capture.stop(BreakReason::DataDependent, "a tensor is written into a string");
  std::vector<PyObject*> around;
  try {
    watch_text_within(capture, value, around);
  } catch (const NoText& found) {
    capture.stop(found.reason, found.what);
  }
}

bool has_known_text(Capture& capture, PyObject* value) {
  if (capture.concrete) return true;
  if (python::is_tensor(value)) return false;
  std::vector<PyObject*> around;
  try {
    watch_text_within(capture, value, around);
  } catch (const NoText&) {
    return false;
  }
  return true;
}

}  // namespace firesteel::capture
