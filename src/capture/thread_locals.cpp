// Attributes of a threading.local lie in a dict that each thread has of its own, which only the object itself can tell.
#include "capture/thread_locals.h"

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/getters.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

// This thread's dict, from a source that asks the object for it.
PyRef own_dict(Capture& capture, PyObject* object, const Source*& in) {
  static PyObject* name = interned("__dict__").release();
  PyRef dict = checked(PyObject_GetAttr(object, name));
  in = capture.source_of(object) ? capture.sources.computed(getter_of(name), capture.source_of(object), nullptr)
                                 : nullptr;
  if (in) capture.remember(dict.get(), in);
  return dict;
}

}  // namespace

bool is_thread_local(PyObject* object) {
  static auto* type = reinterpret_cast<PyTypeObject*>(
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("_thread")).get(), "_local")).release());
  return PyObject_TypeCheck(object, type);
}

PyRef thread_local_attribute(Capture& capture, PyObject* object, PyObject* name) {
  static PyObject* fallback = interned("__getattr__").release();
  PyTypeObject* type = Py_TYPE(object);
  PyObject* found = _PyType_Lookup(type, name);
  capture.guard_class_attribute(type, name, found);
  const bool goes_first = found && Py_TYPE(found)->tp_descr_get && Py_TYPE(found)->tp_descr_set;
  if (!goes_first) {
    const Source* in = nullptr;
    PyRef dict = own_dict(capture, object, in);
    PyObject* value = PyDict_GetItemWithError(dict.get(), name);
    python::check(value || !PyErr_Occurred());
    if (value) return capture.read_key(dict.get(), in, name, value);
    capture.guard_absent(dict.get(), in, name);
  }
  PyRef value = found ? described(capture, object, type, name, found) : PyRef();
  if (!value && (found || _PyType_Lookup(type, fallback)))
    capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a threading.local", python::text_of(name)));
  return value;
}

bool store_thread_local(Capture& capture, PyObject* object, PyObject* name, PyObject* value) {
  static PyObject* setter = interned("__setattr__").release();
  static PyObject* deleter = interned("__delattr__").release();
  PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
  if ((found && Py_TYPE(found)->tp_descr_set) ||
      PyFunction_Check(_PyType_Lookup(Py_TYPE(object), value ? setter : deleter)))
    return false;
  const Source* in = nullptr;
  PyRef dict = own_dict(capture, object, in);
  PyObject* there = PyDict_GetItemWithError(dict.get(), name);
  python::check(there || !PyErr_Occurred());
  if (!value && !there) capture.guard_absent(dict.get(), in, name);
  if (!value && there && in) capture.guard_present(dict.get(), in, name);
  capture.before_write(dict.get());
  python::check((value ? PyDict_SetItem(dict.get(), name, value) : PyObject_DelAttr(object, name)) == 0);
  return true;
}

}  // namespace firesteel::capture
