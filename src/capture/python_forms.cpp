// Reads the forms from Python once, and calls them in the functions' places.
#include "capture/python_forms.h"

#include <algorithm>
#include <unordered_map>

#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr int kDeepest = 6;

struct Forms {
  std::unordered_map<PyObject*, PyObject*> always, of_sizes, with_tensors, with_tensor_numbers, with_data;
  std::unordered_map<PyObject*, PyObject*> with_types, of_extremes, in_whole_graphs, draws_by_name;
  PyObject* form_of_draw = nullptr;

  Forms() {
    PyRef module = checked(PyImport_ImportModule("firesteel._python_forms"));
    fill(always, checked(PyObject_GetAttrString(module.get(), "FORMS")).release());
    fill(of_sizes, checked(PyObject_GetAttrString(module.get(), "FORMS_OF_SIZES")).release());
    fill(with_tensors, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_TENSORS")).release());
    fill(with_tensor_numbers, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_TENSOR_NUMBERS")).release());
    fill(with_data, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_DATA")).release());
    fill(with_types, checked(PyObject_GetAttrString(module.get(), "FORMS_WITH_TYPES")).release());
    fill(of_extremes, checked(PyObject_GetAttrString(module.get(), "FORMS_OF_EXTREMES")).release());
    PyRef draws = checked(PyImport_ImportModule("firesteel._random_forms"));
    fill(in_whole_graphs, checked(PyObject_GetAttrString(draws.get(), "FORMS_OF_DRAWS")).release());
    fill(in_whole_graphs, checked(PyObject_GetAttrString(module.get(), "FORMS_IN_WHOLE_GRAPHS")).release());
    fill(draws_by_name, checked(PyObject_GetAttrString(draws.get(), "METHODS_THAT_DRAW")).release());
    form_of_draw = checked(PyObject_GetAttrString(draws.get(), "form_of")).release();
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

PyObject* form_of_sizes(PyObject* callable, const CallArgs& args) {
  auto is_plain = [](const PyRef& value) { return PyLong_CheckExact(value.get()) || PyFloat_CheckExact(value.get()); };
  PyObject* form = found_in(forms().of_sizes, callable);
  if (!form || args.keyword_count() || args.values.empty()) return nullptr;
  PyObject* list = PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]) ? args[0] : nullptr;
  for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(list); ++i) {
    if (!is_plain(PyRef::borrow(PySequence_Fast_GET_ITEM(list, i)))) return nullptr;
  }
  return list || std::all_of(args.values.begin(), args.values.end(), is_plain) ? form : nullptr;
}

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
  const bool given = form && std::any_of(args.values.begin(), args.values.end(),
                                         [&](const PyRef& value) { return holds_data(capture, value.get()); });
  return given ? form : nullptr;
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

namespace {

// The generator that a method is called on, where it draws; null for all else. Takes it out of the arguments.
PyRef generator_of(PyObject* callable, CallArgs& args, PyObject*& name) {
  const bool is_bound = PyMethod_Check(callable);
  name = found_in(forms().draws_by_name, is_bound ? PyMethod_GET_FUNCTION(callable) : callable);
  if (!name || (!is_bound && args.positional() == 0)) return {};
  PyRef generator = is_bound ? PyRef::borrow(PyMethod_GET_SELF(callable)) : args.values[0];
  if (!is_bound) args.values.erase(args.values.begin());
  return generator;
}

}  // namespace

PyObject* form_of_generator(Capture& capture, PyObject* callable, CallArgs& args) {
  if (!capture.whole_stretches || !capture.takes_data_numbers || !PyCallable_Check(callable)) return nullptr;
  static PyObject* const kind =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("random")).get(), "Random")).release();
  CallArgs rest = args;
  PyObject* name = nullptr;
  PyRef generator = generator_of(callable, rest, name);
  if (!generator || reinterpret_cast<PyObject*>(Py_TYPE(generator.get())) != kind) return nullptr;
  const Source* source = capture.source_of(generator.get());
  if (!source) return nullptr;
  capture.add_guard({GuardKind::Identity, source, generator});
  args = std::move(rest);
  Suspended suspended(capture);
  return checked(PyObject_CallFunctionObjArgs(forms().form_of_draw, generator.get(), name, nullptr)).get();
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
