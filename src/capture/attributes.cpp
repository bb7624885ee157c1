// Attribute access, as Python does it, along paths that can be guarded.
#include <Python.h>
#include <structmember.h>

#include <fmt/format.h>

#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

std::string spelled(PyObject* object, PyObject* name) {
  return fmt::format("`.{}` of a {}", python::text_of(name), Py_TYPE(object)->tp_name);
}

PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }

// Looked up in the class, and watched from now on.
PyObject* class_attribute(Capture& capture, PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  capture.guard_class_attribute(type, name, found);
  return found;
}

// What the class attribute guard pins can be reached as itself.
const Source* pinned(Capture& capture, PyTypeObject* type, PyObject* name, PyObject* found) {
  return capture.sources.pinned(found, fmt::format("{}.{}", type->tp_name, python::text_of(name)));
}

PyRef bind(PyObject* function, PyObject* self) { return checked(PyMethod_New(function, self)); }

PyRef tensor_attribute(Capture& capture, PyObject* tensor, PyObject* name) {
  switch (tensor_attribute_kind(name)) {
    case TensorAttribute::Constant:
      return checked(PyObject_GetAttr(tensor, name));
    case TensorAttribute::View: {
      static PyObject* getattr = checked(PyObject_GetAttrString(PyImport_AddModule("builtins"), "getattr")).release();
      return capture.torch_call(getattr, "getattr", checked(PyTuple_Pack(2, tensor, name)));
    }
    case TensorAttribute::Unknown:
      break;
  }
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  const bool is_method = found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || PyFunction_Check(found) ||
                                   Py_IS_TYPE(found, &PyWrapperDescr_Type));
  if (!is_method) capture.stop(BreakReason::Attribute, spelled(tensor, name));
  return checked(PyObject_GetAttr(tensor, name));
}

// torch puts objects in place of some of its modules, which pass on what they do not define: `torch.backends.mha`,
// `torch._VF`. What they pass it on to never changes.
PyRef wrapped_module_attribute(Capture& capture, PyObject* module, PyObject* name) {
  for (const char* inner : {"m", "vf"}) {
    PyObject* wrapped = PyDict_GetItemString(PyModule_GetDict(module), inner);
    const bool is_torch = std::string_view(PyModule_GetName(module)).starts_with("torch.");
    if (!wrapped || !is_torch) continue;
    if (PyModule_Check(wrapped)) return find_attribute(capture, wrapped, name);
    PyRef value = PyRef::steal(PyObject_GetAttr(wrapped, name));
    if (value && PyCFunction_Check(value.get())) {
      return capture.admit(value.get(), capture.sources.pinned(value.get(), std::string(python::text_of(name))));
    }
    PyErr_Clear();
  }
  capture.stop(BreakReason::Attribute, spelled(module, name));
}

PyRef python_module_attribute(Capture& capture, PyObject* module, PyObject* name) {
  if (std::string_view(Py_TYPE(module)->tp_name) == "torch._ops" ||
      std::string_view(Py_TYPE(module)->tp_name).starts_with("_Op")) {
    // Namespaces of torch.ops make their members when asked and keep them.
    PyRef value = checked(PyObject_GetAttr(module, name));
    return capture.admit(value.get(), capture.sources.pinned(value.get(), std::string(python::text_of(name))));
  }
  PyObject* dict = PyModule_GetDict(module);
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!PyModule_CheckExact(module)) {
    // A module of a class of its own: whatever the class defines goes its own way.
    if (PyObject* found = class_attribute(capture, Py_TYPE(module), name); found && !value) {
      capture.stop(BreakReason::Attribute, spelled(module, name));
    }
    if (!value) return wrapped_module_attribute(capture, module, name);
  }
  if (!value) return {};
  const Source* in = capture.sources.pinned(dict, std::string(PyModule_GetName(module)));
  return capture.admit(value, capture.sources.item(in, name));
}

PyRef class_object_attribute(Capture& capture, PyObject* object, PyObject* name) {
  const std::string_view text = python::text_of(name);
  if (text == "__name__" || text == "__qualname__") return checked(PyObject_GetAttr(object, name));
  if (_PyType_Lookup(Py_TYPE(object), name)) capture.stop(BreakReason::Attribute, spelled(object, name));
  PyTypeObject* type = as_type(object);
  PyObject* found = class_attribute(capture, type, name);
  if (!found) return {};
  const Source* source = pinned(capture, type, name, found);
  if (PyFunction_Check(found) || Py_IS_TYPE(found, &PyMethodDescr_Type)) return capture.admit(found, source);
  if (Py_IS_TYPE(found, &PyStaticMethod_Type)) {
    PyRef function = checked(PyObject_GetAttrString(found, "__func__"));
    return capture.admit(function.get(), pinned(capture, type, name, function.get()));
  }
  if (Py_TYPE(found)->tp_descr_get) capture.stop(BreakReason::Attribute, spelled(object, name));
  return capture.admit(found, source);
}

// A descriptor of the class that goes before the instance's own dict.
PyRef data_descriptor(Capture& capture, PyObject* object, PyObject* name, PyObject* found) {
  if (Py_IS_TYPE(found, &PyProperty_Type)) {
    PyRef getter = checked(PyObject_GetAttrString(found, "fget"));
    if (!PyFunction_Check(getter.get())) capture.stop(BreakReason::Attribute, spelled(object, name));
    capture.admit(getter.get(), pinned(capture, Py_TYPE(object), name, getter.get()));
    CallArgs args;
    args.values.push_back(PyRef::borrow(object));
    return call(capture, getter.get(), std::move(args));
  }
  if (Py_IS_TYPE(found, &PyMemberDescr_Type) &&
      reinterpret_cast<PyMemberDescrObject*>(found)->d_member->type == T_OBJECT_EX) {
    const Source* source = capture.sources.step(capture.need_source(object), AccessKind::Member, found);
    PyObject* value = guards::follow(AccessKind::Member, object, found, 0);
    if (!value) return {};
    return capture.admit(value, source);
  }
  if (python::text_of(name) == "__class__") return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  capture.stop(BreakReason::Attribute, spelled(object, name));
}

// nn.Module keeps parameters, buffers and modules in dicts of their own.
PyRef nn_module_attribute(Capture& capture, PyObject* dict, const Source* dict_source, PyObject* name) {
  for (const char* table : {"_parameters", "_buffers", "_modules"}) {
    PyRef key = interned(table);
    PyObject* entries = PyDict_GetItemWithError(dict, key.get());
    if (!entries) continue;
    const Source* source = capture.sources.item(dict_source, key.get());
    PyObject* value = PyDict_Check(entries) ? PyDict_GetItemWithError(entries, name) : nullptr;
    if (value) return capture.admit(value, capture.sources.item(source, name));
    capture.add_guard({GuardKind::Absent, source, PyRef::borrow(name)});
  }
  return {};
}

// `super().forward`: the first class after this one, in the order of the object's own class, that defines the name.
PyRef super_attribute(Capture& capture, PyObject* object, PyObject* name) {
  PyRef after = checked(PyObject_GetAttrString(object, "__thisclass__"));
  PyRef self = checked(PyObject_GetAttrString(object, "__self__"));
  if (PyType_Check(self.get())) capture.stop(BreakReason::Attribute, spelled(object, name));
  PyObject* order = Py_TYPE(self.get())->tp_mro;
  bool passed = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    PyObject* type = PyTuple_GET_ITEM(order, i);
    if (!std::exchange(passed, passed || type == after.get())) continue;
    class_attribute(capture, as_type(type), name);
    PyObject* found = PyDict_GetItemWithError(as_type(type)->tp_dict, name);
    if (!found) continue;
    if (!PyFunction_Check(found)) break;
    capture.admit(found, pinned(capture, as_type(type), name, found));
    return bind(found, self.get());
  }
  capture.stop(BreakReason::Attribute, spelled(object, name));
}

PyRef instance_attribute(Capture& capture, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* getattribute = interned("__getattribute__").release();
  static PyObject* getattr = interned("__getattr__").release();
  if (_PyType_Lookup(type, getattribute) != _PyType_Lookup(&PyBaseObject_Type, getattribute)) {
    capture.stop(BreakReason::Attribute, spelled(object, name));
  }
  const Source* source = capture.need_source(object);
  PyObject* found = class_attribute(capture, type, name);
  if (found && Py_TYPE(found)->tp_descr_set) return data_descriptor(capture, object, name, found);
  const Source* dict_source = capture.sources.step(source, AccessKind::InstanceDict);
  PyObject* dict = guards::instance_dict(object);
  if (dict) {
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (value) return capture.admit(value, capture.sources.item(dict_source, name));
  }
  if (type->tp_dictoffset) capture.add_guard({GuardKind::Absent, dict_source, PyRef::borrow(name)});
  if (found) {
    const Source* at = pinned(capture, type, name, found);
    if (PyFunction_Check(found)) {
      capture.admit(found, at);
      return bind(found, object);
    }
    if (Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type)) {
      PyRef function = checked(PyObject_GetAttrString(found, "__func__"));
      PyRef read = capture.admit(function.get(), pinned(capture, type, name, function.get()));
      if (Py_IS_TYPE(found, &PyStaticMethod_Type)) return read;
      return bind(function.get(), reinterpret_cast<PyObject*>(type));
    }
    if (is_own_callable(found)) {
      capture.admit(found, at);
      return bind(found, object);
    }
    if (Py_TYPE(found)->tp_descr_get) capture.stop(BreakReason::Attribute, spelled(object, name));
    return capture.admit(found, at);
  }
  PyObject* fallback = class_attribute(capture, type, getattr);
  if (!fallback) return {};
  if (fallback != module_getattr() || !dict) capture.stop(BreakReason::Attribute, spelled(object, name));
  return nn_module_attribute(capture, dict, dict_source, name);
}

}  // namespace

PyRef find_attribute(Capture& capture, PyObject* object, PyObject* name) {
  if (python::is_tensor(object)) return tensor_attribute(capture, object, name);
  if (PyModule_Check(object)) return python_module_attribute(capture, object, name);
  if (is_torch_op(object)) {
    PyRef value = checked(PyObject_GetAttr(object, name));
    return capture.admit(value.get(), capture.sources.pinned(value.get(), std::string(python::text_of(name))));
  }
  if (Py_IS_TYPE(object, &PySuper_Type)) return super_attribute(capture, object, name);
  if (PyType_Check(object)) return class_object_attribute(capture, object, name);
  if (is_guardable_constant(object) || has_container_methods(Py_TYPE(object))) {
    PyRef value = PyRef::steal(PyObject_GetAttr(object, name));
    if (!value) {
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
      PyErr_Clear();
      return {};
    }
    if (!is_guardable_constant(value.get()) && !PyCFunction_Check(value.get())) {
      capture.stop(BreakReason::Attribute, spelled(object, name));
    }
    return value;
  }
  if (PyTuple_Check(object) && !capture.source_of(object)) {
    // What torch gives back where it has several results (`x.max(dim=0).values`).
    PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
    if (found && Py_IS_TYPE(found, &PyMemberDescr_Type)) return capture.adopt(checked(PyObject_GetAttr(object, name)));
  }
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)) capture.stop(BreakReason::Attribute, spelled(object, name));
  return instance_attribute(capture, object, name);
}

PyRef load_attribute(Capture& capture, PyObject* object, PyObject* name) {
  if (PyRef value = find_attribute(capture, object, name)) return value;
  capture.stop(BreakReason::Exception, fmt::format("AttributeError: '{}' object has no attribute '{}'",
                                                   Py_TYPE(object)->tp_name, python::text_of(name)));
}

PyRef load_method(Capture& capture, PyObject* object, PyObject* name, bool& takes_self) {
  takes_self = false;
  if (python::is_tensor(object) || has_container_methods(Py_TYPE(object))) {
    PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
    takes_self = found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || PyFunction_Check(found));
    if (takes_self) return PyRef::borrow(found);
  }
  PyRef value = load_attribute(capture, object, name);
  if (!PyMethod_Check(value.get()) || PyMethod_GET_SELF(value.get()) != object) return value;
  takes_self = true;
  return PyRef::borrow(PyMethod_GET_FUNCTION(value.get()));
}

}  // namespace firesteel::capture
