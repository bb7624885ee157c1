// Each fact of a class by the cheapest guard that sees it change.
#include "capture/class_facts.h"

#include <string_view>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "capture/getters.h"
#include "python/errors.h"

namespace firesteel::capture {

namespace {

// What lies in the class's own dict, which is there as long as the class is.
PyRef contents(Capture& capture, PyTypeObject* type, PyObject* name) {
  const std::string_view text = python::text_of(name);
  PyObject* object = reinterpret_cast<PyObject*>(type);
  auto at_itself = [&](PyObject* value) {
    return capture.sources.pinned(value, fmt::format("{}.{}", type->tp_name, text));
  };
  // A metaclass, or a C class, may have its own way.
  if (!is_python_class(type) || _PyType_Lookup(Py_TYPE(object), name) != _PyType_Lookup(&PyType_Type, name)) return {};
  PyRef value = python::checked(PyObject_GetAttr(object, name));  // makes annotations where there are none
  PyObject* dict = fs_type_dict(type);
  if (text == "__annotations__") return capture.admit(value.get(), capture.sources.item(at_itself(dict), name));
  capture.remember(dict, at_itself(dict));
  return capture.made(std::move(value));
}

}  // namespace

PyRef class_fact(Capture& capture, PyObject* object, PyObject* name) {
  const std::string_view text = python::text_of(name);
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  if (text == "__dict__" || text == "__annotations__") return contents(capture, type, name);
  const bool is_name = text == "__name__" || text == "__qualname__";
  const bool is_text = text == "__module__" || text == "__doc__";
  if (!is_name && !is_text && text != "__mro__" && text != "__bases__" && text != "__base__") return {};
  PyRef value = python::checked(PyObject_GetAttr(object, name));
  const bool plain = PyUnicode_Check(value.get()) || value.get() == Py_None;
  auto at_itself = [&] { return capture.sources.pinned(value.get(), fmt::format("{}.{}", type->tp_name, text)); };
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return plain ? value : capture.admit(value.get(), at_itself());
  if (is_text) {
    // They lie in the class's dict.
    capture.guard_class_attribute(type, name, _PyType_Lookup(type, name));
    return plain ? value : capture.admit(value.get(), at_itself());
  }
  if (capture.is_made(object) && !capture.is_unknown(object))
    return plain ? value : capture.admit(value.get(), at_itself());
  const Source* source = capture.source_of(object);
  if (!source) source = capture.sources.pinned(object, type->tp_name);
  if (!is_name) return capture.admit(value.get(), capture.sources.computed(getter_of(name), source, nullptr));
  return capture.admit_value(
      value.get(), capture.sources.step(source, text == "__name__" ? AccessKind::Name : AccessKind::Qualname));
}

PyRef subclasses_of(Capture& capture, PyObject* type) {
  const PyRef name = interned("__subclasses__"), none = python::checked(PyTuple_New(0));
  const Source* source = capture.source_of(type);
  if (!source) source = capture.sources.pinned(type, reinterpret_cast<PyTypeObject*>(type)->tp_name);
  PyRef value = python::checked(PyObject_CallMethodNoArgs(type, name.get()));
  return capture.admit(value.get(), capture.sources.computed(caller_of(name.get(), none.get()), source, nullptr));
}

}  // namespace firesteel::capture
