// Setting and deleting attributes, as Python does it.
#include <Python.h>
#include <structmember.h>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/class_facts.h"
#include "capture/class_writes.h"
#include "capture/cpython/frame_shim.h"
#include "capture/same_values.h"
#include "capture/tensor_history.h"
#include "capture/thread_locals.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

std::string spelled(PyObject* object, PyObject* name) {
  return fmt::format("setting or deleting `.{}` of a {}", python::text_of(name), Py_TYPE(object)->tp_name);
}

PyObject* class_attribute(Capture& capture, PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  capture.guard_class_attribute(type, name, found);
  if (found && PyFunction_Check(found)) {
    capture.admit(found, capture.sources.pinned(found, fmt::format("{}.{}", type->tp_name, python::text_of(name))));
  }
  return found;
}

// A descriptor that takes the value itself.
void store_through(Capture& capture, PyObject* object, PyObject* name, PyObject* found, PyObject* value) {
  if (acts_as_property(found)) {
    PyRef setter = checked(PyObject_GetAttrString(found, value ? "fset" : "fdel"));
    if (setter.get() == Py_None) {
      PyErr_Format(PyExc_AttributeError, "property '%U' of '%s' object has no %s", name, Py_TYPE(object)->tp_name,
                   value ? "setter" : "deleter");
      python::throw_python_error();
    }
    capture.admit(setter.get(), capture.sources.pinned(setter.get(), std::string(python::text_of(name))));
    CallArgs args;
    args.values.push_back(PyRef::borrow(object));
    if (value) args.values.push_back(PyRef::borrow(value));
    call(capture, setter.get(), std::move(args));
    return;
  }
  if (Py_IS_TYPE(found, &PyMemberDescr_Type) &&
      reinterpret_cast<PyMemberDescrObject*>(found)->d_member->type == T_OBJECT_EX) {
    PyObject*& place = slot_value(object, found);
    if (!value && !place) {
      PyErr_SetObject(PyExc_AttributeError, name);
      python::throw_python_error();
    }
    capture.before_slot_write(object, found);
    PyRef old = PyRef::steal(place);
    place = Py_XNewRef(value);
    return;
  }
  PyRef key = interned(value ? "__set__" : "__delete__");
  PyObject* set = class_attribute(capture, Py_TYPE(found), key.get());
  if (set && PyFunction_Check(set)) {
    capture.remember(found, capture.sources.pinned(found, std::string(python::text_of(name))));
    CallArgs args;
    args.values = {PyRef::borrow(found), PyRef::borrow(object)};
    if (value) args.values.push_back(PyRef::borrow(value));
    call(capture, set, std::move(args));
    return;
  }
  if (capture.is_made(object)) {
    python::check(PyObject_GenericSetAttr(object, name, value) == 0);
    return;
  }
  capture.stop(BreakReason::Write, spelled(object, name));
}

}  // namespace

void store_in_dict(Capture& capture, PyObject* object, const Source* source, PyObject* name, PyObject* value) {
  PyObject* dict = guards::instance_dict(object);
  // An empty one: the guards must find it that way again.
  if (!dict) dict = checked(PyObject_GenericGetDict(object, nullptr)).get();
  const Source* in = capture.sources.step(source, AccessKind::InstanceDict);
  capture.remember(dict, in);
  if (!value) {
    PyObject* there = PyDict_GetItemWithError(dict, name);
    if (!there) {
      capture.guard_absent(dict, in, name);
      PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
      name_error(name, object);
    }
    capture.guard_present(dict, in, name);
  }
  capture.before_write(dict);
  guard_same(capture, dict, name, value);
  python::check((value ? PyDict_SetItem(dict, name, value) : PyDict_DelItem(dict, name)) == 0);
}

void generic_store(Capture& capture, PyObject* object, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* found = class_attribute(capture, type, name);
  if (found && Py_TYPE(found)->tp_descr_set) return store_through(capture, object, name, found, value);
  if (capture.is_made(object)) {
    python::check(PyObject_GenericSetAttr(object, name, value) == 0);
    return;
  }
  if (!guards::instance_dict(object) && !type->tp_dictoffset) {
    python::check(PyObject_GenericSetAttr(object, name, value) == 0);  // raises
    return;
  }
  store_in_dict(capture, object, capture.need_source(object), name, value);
}

void store_attribute(Capture& capture, PyObject* object, PyObject* name, PyObject* value) {
  if (capture.concrete) {
    python::check(PyObject_SetAttr(object, name, value) == 0);
    return;
  }
  if (python::is_tensor(object)) return store_tensor_attribute(capture, object, name, value);
  if (PyModule_CheckExact(object)) {
    PyObject* dict = PyModule_GetDict(object);
    // One that was never initialized, or another class: no entry of its dict.
    if (!dict || python::text_of(name) == "__class__") capture.stop(BreakReason::Write, spelled(object, name));
    capture.remember(dict, module_variables(capture, object));
    capture.before_write(dict);
    guard_same(capture, dict, name, value);
    python::check(PyObject_SetAttr(object, name, value) == 0);
    return;
  }
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object) && ClassWrites::set(capture, object, name, value)) return;
  if (PyFunction_Check(object) && capture.is_made(object)) {
    python::check(PyObject_SetAttr(object, name, value) == 0);
    return;
  }
  if (is_thread_local(object) && store_thread_local(capture, object, name, value)) return;
  if (!is_python_class(type)) {
    capture.settle_deep(value);
    if (capture.is_made(object) && !PyType_Check(object)) {
      python::check(PyObject_SetAttr(object, name, value) == 0);
      return;
    }
    capture.stop(BreakReason::Write, spelled(object, name));
  }
  PyRef key = interned(value ? "__setattr__" : "__delattr__");
  PyObject* setter = class_attribute(capture, type, key.get());
  // `__setattr__ = dict.__setitem__`
  const bool of_object = !setter || (Py_IS_TYPE(setter, &PyWrapperDescr_Type) &&
                                     reinterpret_cast<PyWrapperDescrObject*>(setter)->d_wrapped ==
                                         reinterpret_cast<void*>(PyObject_GenericSetAttr));
  if (of_object) return generic_store(capture, object, name, value);
  const bool takes_self =
      PyFunction_Check(setter) || Py_IS_TYPE(setter, &PyWrapperDescr_Type) || Py_IS_TYPE(setter, &PyMethodDescr_Type);
  if (!takes_self) capture.stop(BreakReason::Write, spelled(object, name));
  CallArgs args;
  args.values = {PyRef::borrow(object), PyRef::borrow(name)};
  if (value) args.values.push_back(PyRef::borrow(value));
  call(capture, setter, std::move(args));
}

}  // namespace firesteel::capture
