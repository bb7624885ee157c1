// Texts of a function are read under guards, its parts where it was made inside, all else from its dict.
#include "capture/function_attributes.h"

#include <algorithm>

#include <fmt/format.h>

#include "capture/getters.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using guards::AccessKind;
using guards::GuardKind;
using guards::Source;
using python::checked;

constexpr std::pair<std::string_view, AccessKind> kParts[] = {{"__defaults__", AccessKind::FunctionDefaults},
                                                              {"__kwdefaults__", AccessKind::FunctionKwDefaults},
                                                              {"__closure__", AccessKind::FunctionClosure},
                                                              {"__annotations__", AccessKind::Computed},
                                                              {"__dict__", AccessKind::InstanceDict}};

bool is_part(std::string_view text) {
  return std::any_of(std::begin(kParts), std::end(kParts), [&](const auto& row) { return row.first == text; });
}

}  // namespace

PyRef function_attribute(Capture& capture, PyObject* object, PyObject* name) {
  const std::string_view text = python::text_of(name);
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  constexpr std::pair<std::string_view, AccessKind> kTexts[] = {{"__name__", AccessKind::Name},
                                                                {"__qualname__", AccessKind::Qualname},
                                                                {"__module__", AccessKind::FunctionModule},
                                                                {"__doc__", AccessKind::FunctionDoc}};
  for (const auto& [word, kind] : kTexts) {
    if (text != word) continue;
    PyRef value = checked(PyObject_GetAttr(object, name));
    const Source* source = capture.is_made(object) ? nullptr : capture.source_of(object);
    return source ? capture.admit_value(value.get(), capture.sources.step(source, kind)) : value;
  }
  if (text == "__code__")
    return capture.admit(function->func_code, capture.sources.pinned(function->func_code, "__code__"));
  if (text == "__globals__") {
    if (!capture.source_of(function->func_globals))
      capture.remember(function->func_globals, capture.sources.pinned(function->func_globals, ""));
    return PyRef::borrow(function->func_globals);
  }
  if (text == "__class__") return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (text == "__get__" || text == "__call__") return checked(PyObject_GetAttr(object, name));
  if (is_part(text)) {
    PyRef value = checked(PyObject_GetAttr(object, name));
    const Source* source = capture.is_made(object) ? nullptr : capture.source_of(object);
    if (!source && capture.is_made(object)) return value;
    for (const auto& [word, kind] : kParts) {
      if (!source || text != word) continue;
      // A function without defaults has None in their place, which no step leads to.
      const bool by_name = kind == AccessKind::Computed || value.get() == Py_None;
      return capture.admit(value.get(), by_name ? capture.sources.computed(getter_of(name), source, nullptr)
                                                : capture.sources.step(source, kind));
    }
    capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a function", text));
  }
#if PY_VERSION_HEX >= 0x030C0000
  if (text == "__type_params__") {
    // They come with the code; functools.wraps() reads them of every function.
    PyRef value = checked(PyObject_GetAttr(object, name));
    if (capture.is_made(object) || PyTuple_GET_SIZE(value.get()) == 0) return value;
    capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a function", text));
  }
#endif
  PyObject* dict = guards::instance_dict(object);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  const Source* source = capture.source_of(object);
  const Source* in = source ? capture.sources.step(source, AccessKind::InstanceDict) : nullptr;
  if (value) return in ? capture.read_key(dict, in, name, value) : capture.adopt(PyRef::borrow(value));
  if (dict)
    capture.guard_absent(dict, in, name);
  else if (in)
    capture.add_guard({GuardKind::Absent, in, PyRef::borrow(name)});
  return {};
}

}  // namespace firesteel::capture
