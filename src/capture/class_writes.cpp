// Keeps what was set on classes apart from them.
#include "capture/class_writes.h"

#include <algorithm>

#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "python/constants.h"

namespace firesteel::capture {
namespace {

thread_local ClassWrites* t_current = nullptr;

bool is_special(PyObject* name) {
  const std::string_view text = python::text_of(name);
  return text.starts_with("__") && text.ends_with("__");
}

}  // namespace

ClassWrites::ClassWrites(Capture& capture) : capture_(capture), outer_(t_current) { t_current = this; }
ClassWrites::~ClassWrites() { t_current = outer_; }

bool ClassWrites::set(Capture& capture, PyObject* object, PyObject* name, PyObject* value) {
  if (!t_current || &t_current->capture_ != &capture || capture.unrecorded || !value) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  const bool plain = is_python_class(type) && Py_TYPE(type)->tp_setattro == PyType_Type.tp_setattro &&
                     Py_TYPE(type)->tp_getattro == PyType_Type.tp_getattro && !_PyType_Lookup(Py_TYPE(type), name);
  // A function or another descriptor is bound by whoever reads it, and calls of special methods are C code's.
  if (!plain || is_special(name) || Py_TYPE(value)->tp_descr_get) return false;
  PyObject* there = _PyType_Lookup(type, name);
  if (there && Py_TYPE(there)->tp_descr_get) return false;
  capture.guard_class_attribute(type, name, there);
  std::vector<Write>& writes = t_current->writes_;
  auto known = std::find_if(writes.begin(), writes.end(),
                            [&](const Write& write) { return write.type.get() == object && write.name.get() == name; });
  if (known == writes.end())
    writes.push_back({PyRef::borrow(object), PyRef::borrow(name), PyRef::borrow(value)});
  else
    known->value = PyRef::borrow(value);
  return true;
}

PyRef ClassWrites::find(const Capture& capture, PyTypeObject* type, PyObject* name) {
  if (!t_current || &t_current->capture_ != &capture || t_current->writes_.empty()) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* owner = PyTuple_GET_ITEM(type->tp_mro, i);
    for (const Write& write : t_current->writes_) {
      if (write.type.get() == owner && write.name.get() == name) return write.value;
    }
    if (PyDict_GetItemWithError(fs_type_dict(reinterpret_cast<PyTypeObject*>(owner)), name)) return {};
  }
  return {};
}

std::vector<ClassWrites::Write> ClassWrites::left(const Capture& capture) {
  return t_current && &t_current->capture_ == &capture ? t_current->writes_ : std::vector<Write>();
}

}  // namespace firesteel::capture
