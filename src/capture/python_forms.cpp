// Reads the forms from Python once, and calls them in the functions' places.
#include "capture/python_forms.h"

#include <unordered_map>

#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr int kDeepest = 6;

struct Forms {
  std::unordered_map<PyObject*, PyObject*> always, with_tensors, with_tensor_numbers, with_data, with_types;
  std::unordered_map<PyObject*, PyObject*> of_extremes, in_whole_graphs;

  Forms() {
    PyRef module = checked(PyImport_ImportModule("firesteel._python_forms"));
    fill(always, checked(PyObject_GetAttrString(module.get(), "FORMS")).release());
    fill(with_tensors, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_TENSORS")).release());
    fill(with_tensor_numbers, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_TENSOR_NUMBERS")).release());
    fill(with_data, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_DATA")).release());
    fill(with_types, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_TYPES")).release());
    fill(of_extremes, checked(PyObject_GetAttrString(module.get(), "FORMS_OF_EXTREMES")).release());
    PyRef draws = checked(PyImport_ImportModule("firesteel._random_forms"));
    fill(in_whole_graphs, checked(PyObject_GetAttrString(draws.get(), "FORMS_OF_DRAWS")).release());
    fill(in_whole_graphs, checked(PyObject_GetAttrString(module.get(), "FORMS_IN_WHOLE_GRAPHS")).release());
  }

  static void fill(std::unordered_map<PyObject*, PyObject*>& table, PyObject* given) {
    Py_ssize_t position = 0;
    PyObject *function = nullptr, *form = nullptr;
    while (PyDict_Next(given, &position, &function, &form)) table.emplace(function, form);
  }
};

const Forms& forms() {
  static const auto* table = new Forms;  // holds Python objects: never destroyed
  return *table;
}

PyObject* found_in(const std::unordered_map<PyObject*, PyObject*>& table, PyObject* callable) {
  auto found = table.find(callable);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

bool holds_tensor(PyObject* value, int depth) {
  if (python::is_tensor(value)) return true;
  if (depth > kDeepest) return false;
  if (PyList_Check(value) || PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (holds_tensor(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
    }
  }
  if (PyDict_Check(value)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, nullptr, &item)) {
      if (holds_tensor(item, depth + 1)) return true;
    }
  }
  return false;
}

PyObject* python_form(PyObject* callable) { return found_in(forms().always, callable); }

namespace {

bool is_share(PyObject* keywords) {
  const std::string_view name = python::text_of(PyTuple_GET_ITEM(keywords, 0));
  return name == "alpha" || name == "value";
}

}  // namespace

PyObject* form_with_tensors(PyObject* callable, const CallArgs& args) {
  if (args.keyword_count() == 1 && python::is_tensor(args.values.back().get()) && is_share(args.keywords.get())) {
    if (PyObject* form = found_in(forms().with_tensor_numbers, callable)) return form;
  }
  if (args.values.size() == 2 && !args.keyword_count() && PyType_Check(args[1]) && python_form(args[1])) {
    if (PyObject* form = found_in(forms().with_types, callable)) return form;
  }
  PyObject* form = found_in(forms().with_tensors, callable);
  const bool takes = form && !args.values.empty() && (PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]));
  return takes && holds_tensor(args[0]) ? form : nullptr;
}

namespace {

bool holds_data(const Capture& capture, PyObject* value, int depth = 0) {
  if (capture.is_data_number(value)) return true;
  if (depth > kDeepest || !(PyList_CheckExact(value) || PyTuple_CheckExact(value))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (holds_data(capture, PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

}  // namespace

PyObject* form_with_data(const Capture& capture, PyObject* callable, const CallArgs& args) {
  if (!capture.takes_data_numbers || args.values.empty()) return nullptr;
  PyObject* form = found_in(forms().with_data, callable);
  return form && holds_data(capture, args[0]) ? form : nullptr;
}

PyObject* form_of_extreme(const Capture& capture, PyObject* callable, const CallArgs& args) {
  auto is_either = [](PyObject* value) {
    return python::is_tensor(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value);
  };
  if (!capture.whole_stretches || args.values.empty() || args.keyword_count()) return nullptr;
  bool known = true, data = false;
  auto look = [&](PyObject* value) {
    known &= is_either(value);
    data |= python::is_tensor(value);
  };
  if (args.values.size() > 1) {
    for (const PyRef& value : args.values) look(value.get());
  } else if (PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(args[0]); ++i) look(PySequence_Fast_GET_ITEM(args[0], i));
  } else {
    data = known = python::is_tensor(args[0]);
  }
  return known && data ? found_in(forms().of_extremes, callable) : nullptr;
}

PyObject* form_of_whole(const Capture& capture, PyObject* callable) {
  return capture.whole_stretches && capture.takes_data_numbers && PyCallable_Check(callable)
             ? found_in(forms().in_whole_graphs, callable)
             : nullptr;
}

PyRef call_form(Capture& capture, PyObject* callable, PyObject* form, CallArgs args) {
  PyRef name = python::attribute(callable, "__name__");
  const std::string text(name && PyUnicode_Check(name.get()) ? python::text_of(name.get()) : "?");
  capture.admit(form, capture.sources.pinned(form, text));
  PyRef result = call(capture, form, std::move(args));
  if (result.get() == Py_NotImplemented) capture.stop(BreakReason::CFunction, text);
  return result;
}

}  // namespace firesteel::capture
