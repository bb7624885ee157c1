// Instructions of the match statement.
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyRef truth(bool value) { return PyRef::borrow(value ? Py_True : Py_False); }

}  // namespace

void FrameInterpreter::get_len(int) { push(checked(PyLong_FromSsize_t(length_of(capture_, top().get())))); }

void FrameInterpreter::match_mapping(int) { push(truth((Py_TYPE(top().get())->tp_flags & Py_TPFLAGS_MAPPING) != 0)); }

void FrameInterpreter::match_sequence(int) { push(truth((Py_TYPE(top().get())->tp_flags & Py_TPFLAGS_SEQUENCE) != 0)); }

void FrameInterpreter::match_keys(int) {
  PyObject *keys = top().get(), *subject = top(2).get();
  if (!capture_.concrete && !PyDict_CheckExact(subject))
    capture_.stop(BreakReason::Value, fmt::format("a {} is matched by its keys", Py_TYPE(subject)->tp_name));
  PyRef distinct = checked(PySet_New(nullptr));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    const int again = PySet_Contains(distinct.get(), key);
    python::check(again >= 0);
    if (again)
      raise_python(PyExc_ValueError, fmt::format("mapping pattern checks duplicate key ({})", python::spell(key)));
    python::check(PySet_Add(distinct.get(), key) == 0);
  }
  PyRef values = checked(PyTuple_New(PyTuple_GET_SIZE(keys)));
  PyRef get = capture_.concrete ? checked(PyObject_GetAttrString(subject, "get")) : PyRef();
  PyRef missing = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    PyRef value;
    if (get) {
      value = checked(PyObject_CallFunctionObjArgs(get.get(), key, missing.get(), nullptr));
      if (value.get() == missing.get()) value = {};
    } else if (contains(capture_, subject, key)) {
      value = get_item(capture_, subject, key);
    }
    if (!value) {
      push(PyRef::borrow(Py_None));
      return;
    }
    PyTuple_SET_ITEM(values.get(), i, value.release());
  }
  push(std::move(values));
}

void FrameInterpreter::match_class(int arg) {
  PyRef names = pop(), type = pop(), subject = pop();
  if (!PyType_Check(type.get())) raise_python(PyExc_TypeError, "called match pattern must be a class");
  const int matches = PyObject_IsInstance(subject.get(), type.get());
  python::check(matches >= 0);
  if (!matches) {
    push(PyRef::borrow(Py_None));
    return;
  }
  PyRef values = checked(PyList_New(0));
  PyRef seen = checked(PySet_New(nullptr));
  auto add = [&](PyObject* attribute) {
    const int again = PySet_Contains(seen.get(), attribute);
    python::check(again >= 0);
    if (again) {
      raise_python(PyExc_TypeError,
                   fmt::format("{}() got multiple sub-patterns for attribute '{}'",
                               reinterpret_cast<PyTypeObject*>(type.get())->tp_name, python::text_of(attribute)));
    }
    python::check(PySet_Add(seen.get(), attribute) == 0);
    PyRef value;
    if (capture_.concrete) {
      value = PyRef::steal(PyObject_GetAttr(subject.get(), attribute));
      if (!value && !PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
      PyErr_Clear();
    } else {
      value = find_attribute(capture_, subject.get(), attribute);
    }
    if (!value) return false;
    python::check(PyList_Append(values.get(), value.get()) == 0);
    return true;
  };
  if (arg > 0) {
    PyRef places = python::attribute(type.get(), "__match_args__");
    if (places && !PyTuple_CheckExact(places.get())) {
      raise_python(PyExc_TypeError,
                   fmt::format("{}.__match_args__ must be a tuple (got {})",
                               reinterpret_cast<PyTypeObject*>(type.get())->tp_name, Py_TYPE(places.get())->tp_name));
    }
    // int, str, list and the like match themselves by their first place.
    const bool itself = !places && (reinterpret_cast<PyTypeObject*>(type.get())->tp_flags & _Py_TPFLAGS_MATCH_SELF);
    const Py_ssize_t allowed = itself ? 1 : places ? PyTuple_GET_SIZE(places.get()) : 0;
    if (arg > allowed) {
      raise_python(PyExc_TypeError, fmt::format("{}() accepts {} positional sub-pattern{} ({} given)",
                                                reinterpret_cast<PyTypeObject*>(type.get())->tp_name, allowed,
                                                allowed == 1 ? "" : "s", arg));
    }
    if (itself) python::check(PyList_Append(values.get(), subject.get()) == 0);
    for (int i = 0; !itself && i < arg; ++i) {
      PyObject* place = PyTuple_GET_ITEM(places.get(), i);
      if (!PyUnicode_CheckExact(place)) {
        raise_python(PyExc_TypeError,
                     fmt::format("__match_args__ elements must be strings (got {})", Py_TYPE(place)->tp_name));
      }
      if (!add(PyTuple_GET_ITEM(places.get(), i))) {
        push(PyRef::borrow(Py_None));
        return;
      }
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (!add(PyTuple_GET_ITEM(names.get(), i))) {
      push(PyRef::borrow(Py_None));
      return;
    }
  }
  push(checked(PyList_AsTuple(values.get())));
}

}  // namespace firesteel::capture
