// Reads the fields that C classes and __slots__ give an exception.
#include "capture/exception_fields.h"

#include <Python.h>
#include <structmember.h>

#include <string_view>

#include "capture/cpython/frame_object_shim.h"
#include "capture/cpython/frame_shim.h"
#include "capture/journal.h"
#include "python/errors.h"

namespace firesteel::capture {

using python::PyRef;

namespace {

// What the descriptor of a field holds; empty where that is nothing, or the field cannot be set.
PyRef field_value(PyObject* exception, PyObject* field, std::string_view name) {
  if (Py_IS_TYPE(field, &PyMemberDescr_Type)) {
    const PyMemberDef& member = *reinterpret_cast<PyMemberDescrObject*>(field)->d_member;
    if (member.flags & READONLY) return {};
    const bool holds_object = member.type == T_OBJECT || member.type == T_OBJECT_EX;
    if (holds_object && !slot_value(exception, field)) return {};
  } else if (!Py_IS_TYPE(field, &PyGetSetDescr_Type) || !reinterpret_cast<PyGetSetDescrObject*>(field)->d_getset->set ||
             name == "__dict__" || name == "__traceback__" || name == "__weakref__") {
    return {};
  }
  PyRef value =
      PyRef::steal(Py_TYPE(field)->tp_descr_get(field, exception, reinterpret_cast<PyObject*>(Py_TYPE(exception))));
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace

std::vector<std::pair<PyRef, PyRef>> fields_of_exception(PyObject* exception) {
  std::vector<std::pair<PyRef, PyRef>> fields, last;
  PyObject* order = Py_TYPE(exception)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    auto* owner = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if (owner == &PyBaseObject_Type) continue;
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *field = nullptr;
    while (PyDict_Next(fs_type_dict(owner), &position, &key, &field)) {
      const std::string_view name = python::text_of(key);
      PyRef value = field_value(exception, field, name);
      if (!value) continue;
      // Setting a cause changes it.
      auto& place = name == "__suppress_context__" ? last : fields;
      place.emplace_back(PyRef::borrow(field), std::move(value));
    }
  }
  for (auto& field : last) fields.push_back(std::move(field));
  return fields;
}

int64_t place_in_traceback(PyTracebackObject* entry) {
  // The line is found out when somebody asks for it.
  const PyRef line = python::checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(entry), "tb_lineno"));
  const long number = line.get() == Py_None ? 0 : PyLong_AsLong(line.get());
  return static_cast<int64_t>(number) << 32 | static_cast<uint32_t>(entry->tb_lasti);
}

PyRef new_traceback(PyObject* next, PyObject* code, PyObject* globals, int64_t place) {
  const PyRef frame = python::checked(reinterpret_cast<PyObject*>(
      PyFrame_New(PyThreadState_Get(), reinterpret_cast<PyCodeObject*>(code), globals, nullptr)));
  const int instruction = static_cast<int>(place);  // in bytes
  fs_frame_object_stands_at(reinterpret_cast<PyFrameObject*>(frame.get()), instruction / 2);
  return python::checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                               next ? next : Py_None, frame.get(), instruction,
                                               static_cast<int>(place >> 32)));
}

}  // namespace firesteel::capture
