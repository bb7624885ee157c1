// Runs functions of inspect, typing and re, cached functions and the calls of enums for real.
#include "capture/as_it_is.h"

#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/function_attributes.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

bool is_of_module(PyObject* callable, std::string_view name) {
  if (!PyFunction_Check(callable)) return false;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(callable)->func_module;
  return module && python::text_of(module) == name;
}

// Asks for more of a class or an object than what it is.
bool looks_inside(PyObject* callable) {
  if (!PyFunction_Check(callable)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  const std::string_view name = python::text_of(function->func_name);
  return is_of_module(callable, "typing") ? name == "get_type_hints" : !name.starts_with("is") && name != "getmro";
}

// What frames are around a call is no part of what its guards look at.
bool asks_for_frames(PyObject* callable) {
  static const auto* names = new std::unordered_set<std::string_view>{
      "currentframe", "stack", "trace", "getframeinfo", "getouterframes", "getinnerframes", "getargvalues"};
  return PyFunction_Check(callable) &&
         names->count(python::text_of(reinterpret_cast<PyFunctionObject*>(callable)->func_name)) != 0;
}

void watch_argument(Capture& capture, PyObject* callable, PyObject* value) {
  const Source* source = capture.source_of(value);
  // What makes the text that is put in reads what it likes.
  if (is_of_module(callable, "re") && PyCallable_Check(value)) capture.stop(BreakReason::CFunction, name_of(callable));
  if (PyMethod_Check(value)) return watch_argument(capture, callable, PyMethod_GET_FUNCTION(value));
  if (PyFunction_Check(value)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(value);
    guard_defaults(capture, function);
    for (const char* text : {"__name__", "__qualname__", "__module__", "__doc__"})
      function_attribute(capture, value, interned(text).get());
    if (function->func_annotations)
      capture.consult_deep(function_attribute(capture, value, interned("__annotations__").get()).get());
    if (!source || !function->func_dict) return;
    // What it wraps, and a signature of its own.
    capture.remember(function->func_dict, capture.sources.step(source, AccessKind::InstanceDict));
    return capture.consult(function->func_dict);
  }
  const bool is_open = PyType_Check(value) || is_python_class(Py_TYPE(value)) || PyModule_Check(value);
  if (is_open && (source || PyType_Check(value)) && looks_inside(callable))
    capture.stop(BreakReason::Value, fmt::format("`{}` looks into a {}", name_of(callable), Py_TYPE(value)->tp_name));
  if (!capture.is_deep_constant(value) && source)
    capture.add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
}

}  // namespace

std::string name_of(PyObject* callable) {
  PyRef name = python::attribute(callable, "__name__");
  return name ? std::string(python::text_of(name.get())) : fmt::format("{} object", Py_TYPE(callable)->tp_name);
}

void guard_defaults(Capture& capture, PyFunctionObject* function) {
  const Source* source = capture.source_of(reinterpret_cast<PyObject*>(function));
  if (!source) return;
  const Source* defaults = capture.sources.step(source, AccessKind::FunctionDefaults);
  if (function->func_defaults) {
    Guard guard{GuardKind::Length, defaults};
    guard.number = PyTuple_GET_SIZE(function->func_defaults);
    capture.add_guard(std::move(guard));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(function->func_defaults); ++i) {
      capture.admit(PyTuple_GET_ITEM(function->func_defaults, i), capture.sources.item(defaults, i));
    }
  }
  if (function->func_kwdefaults) {
    const Source* named = capture.sources.step(source, AccessKind::FunctionKwDefaults);
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(function->func_kwdefaults, &position, &key, &value))
      capture.admit(value, capture.sources.item(named, key));
  }
}

bool runs_as_it_is(PyFunctionObject* function) {
  static const auto* modules = new std::unordered_set<std::string_view>{"inspect", "typing", "re"};
  if (!function->func_module || !modules->count(python::text_of(function->func_module))) return false;
  // These pass values on that the program computes.
  const std::string_view name = python::text_of(function->func_qualname);
  return !name.starts_with("Signature.bind") && !name.starts_with("Signature._bind") &&
         !name.starts_with("BoundArguments.") && !name.starts_with("Parameter.") && name != "Signature.parameters";
}

PyRef run_as_it_is(Capture& capture, PyObject* callable, const CallArgs& args, bool shared) {
  if (asks_for_frames(callable))
    capture.stop(BreakReason::Value, fmt::format("`{}` asks who called", name_of(callable)));
  for (const PyRef& value : args.values) {
    if (python::is_tensor(value.get())) capture.stop(BreakReason::CFunction, name_of(callable));
    capture.consult_deep(value.get());
    watch_argument(capture, callable, value.get());
  }
  Suspended suspended(capture);
  PyRef result = is_cached_function(callable) ? capture.cached_call(callable, args) : args.call(callable);
  if (is_guardable_constant(result.get()) || python::is_tensor(result.get())) return result;
  if (!shared) return capture.made(std::move(result));
  return capture.admit(result.get(), capture.sources.kept(result.get(), name_of(callable) + "(…)"));
}

}  // namespace firesteel::capture
