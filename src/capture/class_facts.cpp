// Each fact of a class by the cheapest guard that sees it change.
#include "capture/class_facts.h"

#include <string_view>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/getters.h"
#include "python/errors.h"

namespace firesteel::capture {

PyRef class_fact(Capture& capture, PyObject* object, PyObject* name) {
  const std::string_view text = python::text_of(name);
  auto* type = reinterpret_cast<PyTypeObject*>(object);
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

}  // namespace firesteel::capture
