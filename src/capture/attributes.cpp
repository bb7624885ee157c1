// Attribute access, as Python does it, along paths that can be guarded.
#include <Python.h>
#include <structmember.h>

#include <algorithm>

#include <fmt/format.h>

#include "capture/arrays.h"
#include "capture/callable_objects.h"
#include "capture/callables.h"
#include "capture/class_facts.h"
#include "capture/class_writes.h"
#include "capture/cpython/frame_shim.h"
#include "capture/function_attributes.h"
#include "capture/mapping_proxies.h"
#include "capture/thread_locals.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

std::string spelled(PyObject* object, PyObject* name) {
  return fmt::format("`.{}` of a {}", python::text_of(name), Py_TYPE(object)->tp_name);
}

PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }

// A descriptor that is asked before the instance's own dict: one that can be set alone is not.
bool goes_first(PyObject* found) { return Py_TYPE(found)->tp_descr_get && Py_TYPE(found)->tp_descr_set; }

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

PyRef get_item_of_tuple(Capture& capture, PyObject* tuple, Py_ssize_t index) {
  if (index >= PyTuple_GET_SIZE(tuple)) {
    PyErr_SetString(PyExc_IndexError, "tuple index out of range");
    python::throw_python_error();
  }
  PyObject* value = PyTuple_GET_ITEM(tuple, index);
  const Source* source = capture.source_of(tuple);
  if (!source) return capture.adopt(PyRef::borrow(value));
  return capture.admit_value(value, capture.sources.item(source, static_cast<int64_t>(index)));
}

// torch puts objects in place of some of its modules, which pass on what they do not define: `torch.backends.mha`,
// `torch._VF`. What they pass it on to never changes.
PyRef wrapped_module_attribute(Capture& capture, PyObject* module, PyObject* name) {
  for (const char* inner : {"m", "vf"}) {
    PyObject* wrapped = PyDict_GetItemString(PyModule_GetDict(module), inner);
    const bool is_torch = module_name(module).starts_with("torch.");
    if (!wrapped || !is_torch) continue;
    if (PyModule_Check(wrapped)) return find_attribute(capture, wrapped, name);
    PyRef value = PyRef::steal(PyObject_GetAttr(wrapped, name));
    if (value && PyCFunction_Check(value.get())) {
      return capture.admit(value.get(), capture.sources.pinned(value.get(), std::string(python::text_of(name))));
    }
    PyErr_Clear();
  }
  PyRef key = interned("__getattr__");
  PyObject* finder = class_attribute(capture, Py_TYPE(module), key.get());
  if (!finder || !PyFunction_Check(finder)) capture.stop(BreakReason::Attribute, spelled(module, name));
  capture.admit(finder, pinned(capture, Py_TYPE(module), key.get(), finder));
  return call(capture, finder, CallArgs{{PyRef::borrow(module), PyRef::borrow(name)}, {}});
}

PyRef python_module_attribute(Capture& capture, PyObject* module, PyObject* name) {
  if (std::string_view(Py_TYPE(module)->tp_name) == "torch._ops" ||
      std::string_view(Py_TYPE(module)->tp_name).starts_with("_Op")) {
    return operator_member(capture, module, name);
  }
  PyObject* dict = PyModule_GetDict(module);
  if (!dict) capture.stop(BreakReason::Attribute, spelled(module, name));  // it was never initialized
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!PyModule_CheckExact(module)) {
    // A module of a class of its own: whatever the class defines goes its own way.
    if (PyObject* found = class_attribute(capture, Py_TYPE(module), name); found && !value) {
      if (PyRef value = described(capture, module, Py_TYPE(module), name, found)) return value;
      capture.stop(BreakReason::Attribute, spelled(module, name));
    }
    if (!value) return wrapped_module_attribute(capture, module, name);
  }
  if (value) return capture.admit(value, capture.sources.item(module_variables(capture, module), name));
  const std::string_view text = python::text_of(name);
  if (text == "__dict__") return capture.admit(dict, module_variables(capture, module));
  if (text == "__class__") return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(module)));
  if (_PyType_Lookup(Py_TYPE(module), name)) capture.stop(BreakReason::Attribute, spelled(module, name));
  capture.guard_absent(dict, module_variables(capture, module), name);
  // A module may say itself what it gives for names that it does not have.
  PyRef key = interned("__getattr__");
  PyObject* finder = PyDict_GetItemWithError(dict, key.get());
  if (!finder) {
    capture.guard_absent(dict, module_variables(capture, module), key.get());
    return {};
  }
  capture.admit(finder, capture.sources.item(module_variables(capture, module), key.get()));
  return call(capture, finder, CallArgs{{PyRef::borrow(name)}, {}});
}

// A class method of `owner` as `type` has it: what is wrapped may be a descriptor itself.
PyRef class_method(Capture& capture, PyObject* found, PyTypeObject* owner, PyObject* type, PyObject* name) {
  PyRef function = checked(PyObject_GetAttrString(found, "__func__"));
  capture.admit(function.get(), pinned(capture, owner, name, function.get()));
  const bool describes = Py_IS_TYPE(function.get(), &PyClassMethod_Type) ||
                         Py_IS_TYPE(function.get(), &PyStaticMethod_Type) || acts_as_property(function.get());
  return describes ? described(capture, type, as_type(type), name, function.get()) : bind(function.get(), type);
}

}  // namespace

PyRef described(Capture& capture, PyObject* object, PyTypeObject* type, PyObject* name, PyObject* found) {
  const Source* at = pinned(capture, type, name, found);
  if (PyFunction_Check(found) || is_own_callable(found) || is_cached_function(found)) {
    capture.admit(found, at);
    return object ? bind(found, object) : PyRef::borrow(found);
  }
  if (Py_IS_TYPE(found, &PyClassMethod_Type))
    return class_method(capture, found, type, reinterpret_cast<PyObject*>(type), name);
  if (Py_IS_TYPE(found, &PyStaticMethod_Type)) {
    PyRef function = checked(PyObject_GetAttrString(found, "__func__"));
    return capture.admit(function.get(), pinned(capture, type, name, function.get()));
  }
  if (acts_as_property(found)) {
    if (!object) return capture.admit(found, at);
    PyRef getter = checked(PyObject_GetAttrString(found, "fget"));
    if (getter.get() == Py_None) {
      PyErr_Format(PyExc_AttributeError, "property '%U' of '%s' object has no getter", name, type->tp_name);
      python::throw_python_error();
    }
    capture.admit(getter.get(), pinned(capture, type, name, getter.get()));
    CallArgs args;
    args.values.push_back(PyRef::borrow(object));
    return call(capture, getter.get(), std::move(args));
  }
  // Methods of C classes, bound by C code: what they do is looked at when they are called.
  if (Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type) ||
      Py_IS_TYPE(found, &PyClassMethodDescr_Type) || PyCFunction_Check(found)) {
    if (!Py_TYPE(found)->tp_descr_get) return capture.admit(found, at);
    return checked(Py_TYPE(found)->tp_descr_get(found, object, reinterpret_cast<PyObject*>(type)));
  }
  if (!Py_TYPE(found)->tp_descr_get) return capture.admit(found, at);
  const bool of_slot = Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type) ||
                       std::string_view(Py_TYPE(found)->tp_name) == "_collections._tuplegetter";
  if (!object && of_slot) return capture.admit(found, at);
  // A descriptor written in Python.
  PyRef key = interned("__get__");
  PyObject* get = _PyType_Lookup(Py_TYPE(found), key.get());
  if (!get || !PyFunction_Check(get)) return {};
  capture.remember(found, at);
  capture.guard_class_attribute(Py_TYPE(found), key.get(), get);
  capture.admit(get, pinned(capture, Py_TYPE(found), key.get(), get));
  if (std::string_view(Py_TYPE(found)->tp_name) == "cached_property" && object && !PyType_Check(object) &&
      fs_instance_dict(object)) {
    // Its lock is no part of what the program does.
    PyRef function = checked(PyObject_GetAttrString(found, "func"));
    capture.admit(function.get(), pinned(capture, type, name, function.get()));
    CallArgs args;
    args.values.push_back(PyRef::borrow(object));
    PyRef value = call(capture, function.get(), std::move(args));
    generic_store(capture, object, name, value.get());
    return value;
  }
  CallArgs args;
  args.values = {PyRef::borrow(found), PyRef::borrow(object ? object : Py_None),
                 PyRef::borrow(reinterpret_cast<PyObject*>(type))};
  return call(capture, get, std::move(args));
}

namespace {

bool is_one_of(std::string_view text, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text == name; });
}

PyRef class_object_attribute(Capture& capture, PyObject* object, PyObject* name) {
  const std::string_view text = python::text_of(name);
  PyTypeObject* type = as_type(object);
  if (PyRef fact = class_fact(capture, object, name)) return fact;
  // Facts of a class's layout, which never change.
  if (is_one_of(text, {"__flags__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__"}))
    return checked(PyObject_GetAttr(object, name));
  if (text == "__class__") return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  // A data descriptor of the metaclass goes first.
  PyObject* above = class_attribute(capture, Py_TYPE(object), name);
  if (above && goes_first(above)) {
    if (PyRef value = described(capture, object, Py_TYPE(object), name, above)) return value;
    capture.stop(BreakReason::Attribute, spelled(object, name));
  }
  if (PyRef written = ClassWrites::find(capture, type, name)) return written;
  if (PyObject* found = class_attribute(capture, type, name)) {
    if (PyRef value = described(capture, nullptr, type, name, found)) return value;
    // enum.property and the like: members of an Enum are constants.
    PyRef value = checked(PyObject_GetAttr(object, name));
    if (is_guardable_constant(value.get()) || PyCFunction_Check(value.get())) return value;
    capture.stop(BreakReason::Attribute, spelled(object, name));
  }
  if (above) {
    if (PyRef value = described(capture, object, Py_TYPE(object), name, above)) return value;
    capture.stop(BreakReason::Attribute, spelled(object, name));
  }
  PyRef getattr = interned("__getattr__");
  if (PyObject* fallback = class_attribute(capture, Py_TYPE(object), getattr.get())) {
    if (!PyFunction_Check(fallback)) capture.stop(BreakReason::Attribute, spelled(object, name));
    capture.admit(fallback, pinned(capture, Py_TYPE(object), getattr.get(), fallback));
    CallArgs args;
    args.values = {PyRef::borrow(object), PyRef::borrow(name)};
    return call(capture, fallback, std::move(args));
  }
  return {};
}

// No step leads to what is not there: the object is asked, by C code alone.
void guard_empty_slot(Capture& capture, PyObject* object, PyObject* name, PyObject* member) {
  static PyObject* asks = PyDict_GetItemString(PyEval_GetBuiltins(), "hasattr");
  for (const Journal::Change& change : capture.journal.changes()) {
    if (change.container.get() == object && change.member.get() == member) return;  // the code has emptied it
  }
  const Source* source = capture.source_of(object);
  const bool runs_code = _PyType_Lookup(Py_TYPE(object), interned("__getattr__").get()) ||
                         Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr;
  if (runs_code) capture.stop(BreakReason::Attribute, spelled(object, name));
  const Source* answer = capture.sources.computed(asks, source, capture.sources.pinned(name, ""));
  capture.admit(Py_False, answer);
}

// A descriptor of the class that goes before the instance's own dict.
PyRef data_descriptor(Capture& capture, PyObject* object, PyObject* name, PyObject* found) {
  auto by_descriptor = [&] {
    return checked(Py_TYPE(found)->tp_descr_get(found, object, reinterpret_cast<PyObject*>(Py_TYPE(object))));
  };
  if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
    const int kind = reinterpret_cast<PyMemberDescrObject*>(found)->d_member->type;
    if (kind != T_OBJECT_EX && kind != T_OBJECT) {
      PyRef value = by_descriptor();
      if (capture.source_of(object)) capture.stop(BreakReason::Attribute, spelled(object, name));
      return value;
    }
    PyObject* value = guards::follow(AccessKind::Member, object, found, 0);
    const Source* source = capture.source_of(object);
    if (!value) {
      if (source) guard_empty_slot(capture, object, name, found);
      if (kind == T_OBJECT) return PyRef::borrow(Py_None);
      return {};
    }
    for (const Journal::Change& change : capture.journal.changes()) {
      if (change.container.get() == object && change.member.get() == found && change.before.get() != value)
        return capture.adopt(PyRef::borrow(value));
    }
    if (!source) return capture.adopt(PyRef::borrow(value));
    return capture.admit_value(value, capture.sources.step(source, AccessKind::Member, found));
  }
  // A namedtuple's field.
  if (PyTuple_Check(object) && std::string_view(Py_TYPE(found)->tp_name).ends_with("_tuplegetter")) {
    PyRef reduced = checked(PyObject_CallMethod(found, "__reduce__", nullptr));
    PyRef index = PyRef::borrow(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0));
    return get_item_of_tuple(capture, object, PyLong_AsSsize_t(index.get()));
  }
  const std::string_view text = python::text_of(name);
  if (text == "__class__") return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
    if (text == "__dict__") {
      PyRef dict = by_descriptor();
      const Source* source = capture.source_of(object);
      return source ? capture.admit(dict.get(), capture.sources.step(source, AccessKind::InstanceDict)) : dict;
    }
    if (capture.is_made(object)) return capture.adopt(by_descriptor());
    capture.stop(BreakReason::Attribute, spelled(object, name));
  }
  if (PyRef value = described(capture, object, Py_TYPE(object), name, found)) return value;
  capture.stop(BreakReason::Attribute, spelled(object, name));
}

// nn.Module keeps parameters, buffers and modules in dicts of their own.
PyRef nn_module_attribute(Capture& capture, PyObject* dict, const Source* dict_source, PyObject* name) {
  for (const char* table : {"_parameters", "_buffers", "_modules"}) {
    PyRef key = interned(table);
    PyObject* entries = PyDict_GetItemWithError(dict, key.get());
    if (!entries) continue;
    const Source* source = dict_source ? capture.sources.item(dict_source, key.get()) : nullptr;
    if (!PyDict_Check(entries)) capture.stop(BreakReason::Attribute, "`" + std::string(table) + "` of a module");
    if (dict_source) capture.read_key(dict, dict_source, key.get(), entries);
    PyObject* value = PyDict_GetItemWithError(entries, name);
    if (value && !dict_source) return capture.adopt(PyRef::borrow(value));
    if (value) return capture.read_key(entries, source, name, value);
    capture.guard_absent(entries, source, name);
  }
  return {};
}

// `super().forward`: the first class after this one, in the order of the object's own class, that defines the name.
PyRef super_attribute(Capture& capture, PyObject* object, PyObject* name) {
  const auto [after, self, self_class] = parts_of_super(object);
  if (!PyType_Check(self_class.get())) {  // bound to no object
    if (capture.source_of(object)) capture.stop(BreakReason::Attribute, spelled(object, name));
    return checked(PyObject_GetAttr(object, name));
  }
  const bool of_class = PyType_Check(self.get()) && self.get() == self_class.get();
  PyObject* order = as_type(self_class.get())->tp_mro;
  bool passed = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    PyObject* type = PyTuple_GET_ITEM(order, i);
    if (!std::exchange(passed, passed || type == after.get())) continue;
    if (ClassWrites::find(capture, as_type(type), name)) capture.stop(BreakReason::Attribute, spelled(object, name));
    class_attribute(capture, as_type(type), name);
    PyObject* found = PyDict_GetItemWithError(fs_type_dict(as_type(type)), name);
    if (!found) continue;
    if (Py_IS_TYPE(found, &PyClassMethod_Type))
      return class_method(capture, found, as_type(type), of_class ? self.get() : self_class.get(), name);
    if (PyRef value = described(capture, of_class ? nullptr : self.get(), as_type(type), name, found)) return value;
    break;
  }
  PyRef value = checked(PyObject_GetAttr(object, name));
  if (PyCFunction_Check(value.get()) || Py_IS_TYPE(value.get(), &_PyMethodWrapper_Type)) return value;
  capture.stop(BreakReason::Attribute, spelled(object, name));
}

// The class's __getattr__, where there is one.
PyRef fallback_attribute(Capture& capture, PyObject* object, PyObject* name) {
  static PyObject* getattr = interned("__getattr__").release();
  PyTypeObject* type = Py_TYPE(object);
  PyObject* fallback = class_attribute(capture, type, getattr);
  if (!fallback) return {};
  if (fallback == module_getattr()) {
    PyObject* dict = guards::instance_dict(object);
    const Source* source = capture.source_of(object);
    const Source* dict_source = source ? capture.sources.step(source, AccessKind::InstanceDict) : nullptr;
    return dict ? nn_module_attribute(capture, dict, dict_source, name) : PyRef();
  }
  if (!PyFunction_Check(fallback) && !Py_IS_TYPE(fallback, &PyMethodDescr_Type))  // `__getattr__ = dict.get`
    capture.stop(BreakReason::Attribute, spelled(object, name));
  capture.admit(fallback, pinned(capture, type, getattr, fallback));
  CallArgs args;
  args.values = {PyRef::borrow(object), PyRef::borrow(name)};
  return call(capture, fallback, std::move(args));
}

PyRef instance_attribute(Capture& capture, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* getattribute = interned("__getattribute__").release();
  PyObject* reader = _PyType_Lookup(type, getattribute);
  if (!PyFunction_Check(reader)) {
    // A C class that finds attributes in a way of its own: `super` and its subclasses.
    // Classes over dict, list and the like have a slot of their own for what every object does.
    const bool plain =
        Py_IS_TYPE(reader, &PyWrapperDescr_Type) &&
        reinterpret_cast<PyWrapperDescrObject*>(reader)->d_wrapped == reinterpret_cast<void*>(PyObject_GenericGetAttr);
    if (!plain && type->tp_getattro != PyObject_GenericGetAttr)
      capture.stop(BreakReason::Attribute, spelled(object, name));
    PyRef value = generic_attribute(capture, object, name);
    return value ? value : fallback_attribute(capture, object, name);
  }
  capture.guard_class_attribute(type, getattribute, reader);
  capture.admit(reader, pinned(capture, type, getattribute, reader));
  CallArgs args;
  args.values = {PyRef::borrow(object), PyRef::borrow(name)};
  try {
    return call(capture, reader, std::move(args));
  } catch (const Break&) {
    throw;
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
  PyErr_Clear();
  return fallback_attribute(capture, object, name);
}

}  // namespace

PyRef generic_attribute(Capture& capture, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* found = class_attribute(capture, type, name);
  if (found && goes_first(found)) return data_descriptor(capture, object, name, found);
  const Source* source = capture.source_of(object);
  const Source* dict_source = source ? capture.sources.step(source, AccessKind::InstanceDict) : nullptr;
  PyObject* dict = guards::instance_dict(object);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (value)
    return dict_source ? capture.read_key(dict, dict_source, name, value) : capture.adopt(PyRef::borrow(value));
  if (dict_source && type->tp_dictoffset) {
    if (dict)
      capture.guard_absent(dict, dict_source, name);
    else
      capture.add_guard({GuardKind::Absent, dict_source, PyRef::borrow(name)});
  }
  if (PyRef written = ClassWrites::find(capture, type, name)) return written;
  if (!found) return {};
  if (PyRef value = described(capture, object, type, name, found)) return value;
  if (capture.is_made(object)) return capture.adopt(checked(PyObject_GetAttr(object, name)));
  capture.stop(BreakReason::Attribute, spelled(object, name));
}

PyRef find_attribute(Capture& capture, PyObject* object, PyObject* name) {
  capture.settle(object);
  if (python::is_tensor(object)) return tensor_attribute(capture, object, name);
  if (PyModule_Check(object)) return python_module_attribute(capture, object, name);
  if (is_torch_op(object)) return operator_member(capture, object, name);
  if (PyCell_Check(object) && PyCell_GET(object) && python::text_of(name) == "cell_contents") {
    PyRef held = PyRef::borrow(PyCell_GET(object));
    const Source* cell = capture.source_of(object);
    return cell ? capture.admit_value(held.get(), capture.sources.step(cell, AccessKind::CellContents))
                : capture.adopt(std::move(held));
  }
  if (is_thread_local(object)) return thread_local_attribute(capture, object, name);
  if (Py_IS_TYPE(object, &PySuper_Type)) return super_attribute(capture, object, name);
  if (PyRef found = passed_on(capture, object, name)) return found;
  if (PyWeakref_CheckProxy(object) && PyWeakref_GET_OBJECT(object) != Py_None)
    return find_attribute(capture, referent_of(capture, object).get(), name);
  if (PyType_Check(object)) return class_object_attribute(capture, object, name);
  if (PyFunction_Check(object)) return function_attribute(capture, object, name);
  if (PyMethod_Check(object)) {
    const std::string_view text = python::text_of(name);
    if (text == "__self__") return PyRef::borrow(PyMethod_GET_SELF(object));
    if (text == "__func__") return PyRef::borrow(PyMethod_GET_FUNCTION(object));
    return find_attribute(capture, PyMethod_GET_FUNCTION(object), name);
  }
  const bool plain = is_guardable_constant(object) || has_container_methods(Py_TYPE(object)) ||
                     PyCFunction_Check(object) || Py_IS_TYPE(object, &PyMethodDescr_Type) || PyCode_Check(object) ||
                     is_own_callable(object) || is_dtype_fact(object, name);
  if (plain || (capture.is_made(object) && is_c_class(Py_TYPE(object)))) {
    PyObject* found = capture.source_of(object) ? _PyType_Lookup(Py_TYPE(object), name) : nullptr;
    if (found && Py_IS_TYPE(found, &PyMemberDescr_Type) && !is_guardable_constant(object) &&
        reinterpret_cast<PyMemberDescrObject*>(found)->d_member->type == T_OBJECT)
      return data_descriptor(capture, object, name, found);  // a defaultdict's default_factory
    std::optional<Suspended> as_it_is;
    if (python::is_of_enum_itself(object, name) || is_dtype_fact(object, name)) as_it_is.emplace(capture);
    PyRef value = PyRef::steal(PyObject_GetAttr(object, name));
    if (!value) {
      if (capture.broken || !PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
      PyErr_Clear();
      return {};
    }
    if (is_own_callable(object))
      return capture.admit(value.get(), capture.sources.pinned(value.get(), std::string(python::text_of(name))));
    const bool known = is_guardable_constant(value.get()) || PyCFunction_Check(value.get()) ||
                       Py_IS_TYPE(value.get(), &_PyMethodWrapper_Type) || capture.is_made(object) ||
                       PyCode_Check(object) || value.get() == reinterpret_cast<PyObject*>(Py_TYPE(object));
    if (!known) capture.stop(BreakReason::Attribute, spelled(object, name));
    return capture.adopt(std::move(value));
  }
  return instance_attribute(capture, object, name);
}

PyRef load_attribute(Capture& capture, PyObject* object, PyObject* name) {
  if (capture.concrete) return checked(PyObject_GetAttr(object, name));
  if (PyRef value = find_attribute(capture, object, name)) return value;
  PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
  if (PyType_Check(object)) {
    PyErr_Format(PyExc_AttributeError, "type object '%.50s' has no attribute '%U'", as_type(object)->tp_name, name);
  }
  if (PyModule_Check(object))
    PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute '%U'", module_name(object).c_str(), name);
  name_error(name, object);
}

PyRef special_method(Capture& capture, PyObject* object, const char* name) {
  PyRef key = interned(name);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* found = _PyType_Lookup(type, key.get());
  if (capture.concrete) {
    if (!found) return {};
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    return get ? checked(get(found, object, reinterpret_cast<PyObject*>(type))) : PyRef::borrow(found);
  }
  capture.guard_class_attribute(type, key.get(), found);
  if (!found) return {};
  return described(capture, object, type, key.get(), found);
}

PyRef load_method(Capture& capture, PyObject* object, PyObject* name, bool& takes_self) {
  takes_self = false;
  capture.settle(object);
  if (!capture.concrete && (python::is_tensor(object) || has_container_methods(Py_TYPE(object)))) {
    PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
    takes_self = found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || PyFunction_Check(found));
    if (takes_self) {
      capture.guard_class_attribute(Py_TYPE(object), name, found);  // a program may have put its own in torch's place
      return PyRef::borrow(found);
    }
  }
  PyRef value = load_attribute(capture, object, name);
  if (!PyMethod_Check(value.get()) || PyMethod_GET_SELF(value.get()) != object) return value;
  takes_self = true;
  return PyRef::borrow(PyMethod_GET_FUNCTION(value.get()));
}

}  // namespace firesteel::capture
