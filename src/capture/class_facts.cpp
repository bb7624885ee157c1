// Each fact of a class by the cheapest guard that sees it change.
#include "capture/class_facts.h"

#include <string_view>

#include <fmt/format.h>

#include "capture/as_it_is.h"
#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "capture/getters.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

namespace {

// What lies in the class's own dict, which is there as long as the class is.
PyRef contents(Capture& capture, PyTypeObject* type, PyObject* name) {
  const std::string_view text = python::text_of(name);
  PyObject* object = reinterpret_cast<PyObject*>(type);
  auto at_itself = [&](PyObject* value) {
    return capture.sources.pinned(value, fmt::format("{}.{}", type->tp_name, text));
  };
  // A metaclass, or a C class that can be changed, may have its own way.
  const bool never_changes = text == "__dict__" && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE);
  if (!(is_python_class(type) || never_changes) ||
      _PyType_Lookup(Py_TYPE(object), name) != _PyType_Lookup(&PyType_Type, name))
    return {};
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

PyRef static_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool plain = args.values.size() >= 2 && !args.keyword_count() && PyUnicode_CheckExact(args[1]) &&
                     !python::is_tensor(args[0]) && !PyModule_Check(args[0]);
  auto* type = plain && PyType_Check(args[0]) ? reinterpret_cast<PyTypeObject*>(args[0]) : Py_TYPE(args[0]);
  if (!plain || !is_python_class(type)) return run_as_it_is(capture, callable, args, false);
  const PyRef name = interned(std::string(python::text_of(args[1])).c_str());
  PyObject* found = _PyType_Lookup(type, name.get());
  capture.guard_class_attribute(type, name.get(), found);
  if (!PyType_Check(args[0]) && !(found && Py_TYPE(found)->tp_descr_get && Py_TYPE(found)->tp_descr_set)) {
    PyObject* dict = guards::instance_dict(args[0]);
    const Source* source = capture.source_of(args[0]);
    const Source* in = source ? capture.sources.step(source, AccessKind::InstanceDict) : nullptr;
    PyObject* value = dict ? PyDict_GetItemWithError(dict, name.get()) : nullptr;
    if (value) return in ? capture.read_key(dict, in, name.get(), value) : capture.adopt(PyRef::borrow(value));
    if (in && dict) capture.guard_absent(dict, in, name.get());
    if (in && !dict) capture.add_guard({GuardKind::Absent, in, name});
  }
  if (found) {
    const std::string path = fmt::format("{}.{}", type->tp_name, python::text_of(name.get()));
    return capture.admit(found, capture.sources.pinned(found, path));
  }
  // A class's own class is asked as well.
  if (PyType_Check(args[0]) && Py_TYPE(args[0]) != &PyType_Type) return run_as_it_is(capture, callable, args, false);
  if (args.values.size() > 2) return args.values[2];
  return args.call(callable);  // raises
}

bool acts_as_property(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  if (type == &PyProperty_Type) return true;
  return PyType_IsSubtype(Py_TYPE(object), &PyProperty_Type) && type->tp_descr_get == PyProperty_Type.tp_descr_get &&
         type->tp_descr_set == PyProperty_Type.tp_descr_set;
}

}  // namespace firesteel::capture
