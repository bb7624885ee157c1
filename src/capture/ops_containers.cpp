// Instructions that build containers, add to them and take them apart.
#include <array>

#include <fmt/format.h>

#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "capture/iterables.h"
#include "capture/tensor_text.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

void FrameInterpreter::build_tuple(int arg) {
  std::vector<PyRef> items = pop_many_open(arg);
  PyRef tuple = checked(PyTuple_New(arg));
  for (int i = 0; i < arg; ++i) PyTuple_SET_ITEM(tuple.get(), i, items[i].release());
  push_made(std::move(tuple));
}

void FrameInterpreter::build_list(int arg) {
  std::vector<PyRef> items = pop_many_open(arg);
  PyRef list = checked(PyList_New(arg));
  for (int i = 0; i < arg; ++i) PyList_SET_ITEM(list.get(), i, items[i].release());
  push_made(std::move(list));
}

void FrameInterpreter::build_set(int arg) {
  std::vector<PyRef> items = pop_many(arg);
  PyRef set = checked(PySet_New(nullptr));
  for (const PyRef& item : items) {
    watch_hash(capture_, item.get());
    python::check(PySet_Add(set.get(), item.get()) == 0);
  }
  push(capture_.made(std::move(set)));
}

void FrameInterpreter::build_map(int arg) {
  std::vector<PyRef> items = pop_many_open(2 * static_cast<size_t>(arg));
  PyRef dict = checked(PyDict_New());
  for (size_t i = 0; i < items.size(); i += 2) {
    items[i] = capture_.closed(std::move(items[i]));
    watch_hash(capture_, items[i].get());
    python::check(PyDict_SetItem(dict.get(), items[i].get(), items[i + 1].get()) == 0);
  }
  push_made(std::move(dict));
}

void FrameInterpreter::build_const_key_map(int arg) {
  PyRef keys = pop();
  std::vector<PyRef> values = pop_many_open(arg);
  PyRef dict = checked(PyDict_New());
  for (int i = 0; i < arg; ++i)
    python::check(PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys.get(), i), values[i].get()) == 0);
  push_made(std::move(dict));
}

void FrameInterpreter::build_slice(int arg) {
  std::vector<PyRef> parts = pop_many(arg);
  push(checked(PySlice_New(parts[0].get(), parts[1].get(), arg == 3 ? parts[2].get() : nullptr)));
}

void FrameInterpreter::build_string(int arg) {
  std::vector<PyRef> parts = pop_many(arg);
  if (std::any_of(parts.begin(), parts.end(), [](const PyRef& part) { return is_tensor_text(part.get()); })) {
    push(new_tensor_text(capture_));
    return;
  }
  PyRef list = checked(PyList_New(arg));
  for (int i = 0; i < arg; ++i) PyList_SET_ITEM(list.get(), i, parts[i].release());
  push(checked(PyUnicode_Join(checked(PyUnicode_New(0, 0)).get(), list.get())));
}

void FrameInterpreter::format_value(int arg) {
  PyRef spec = arg & 4 ? pop() : PyRef();
  PyRef value = pop();
  if (!has_known_text(capture_, value.get())) {  // nobody may ever look at it
    push(new_tensor_text(capture_));
    return;
  }
  constexpr PyObject* (*kConversions[])(PyObject*) = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
  if (auto* convert = kConversions[arg & 3]) value = checked(convert(value.get()));
  push(checked(PyObject_Format(value.get(), spec.get())));
}

void FrameInterpreter::list_append(int arg) {
  PyRef item = pop();
  capture_.before_write(top(arg).get());
  python::check(PyList_Append(top(arg).get(), item.get()) == 0);
}

void FrameInterpreter::list_extend(int arg) {
  PyRef given = pop();
  if (!Py_TYPE(given.get())->tp_iter && !PySequence_Check(given.get())) {
    raise_python(PyExc_TypeError,
                 fmt::format("Value after * must be an iterable, not {}", Py_TYPE(given.get())->tp_name));
  }
  PyRef iterator = get_iterator(capture_, given.get());
  PyRef items = checked(PySequence_List(iterator.get()));
  PyObject* list = top(arg).get();
  capture_.before_write(list);
  python::check(PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), items.get()) == 0);
}

void FrameInterpreter::list_to_tuple(int) {
  PyRef list = pop();
  if (!capture_.concrete) capture_.consult(list.get());  // an earlier piece may have filled it
  push(checked(PyList_AsTuple(list.get())));
}

void FrameInterpreter::set_add(int arg) {
  PyRef item = pop();
  watch_hash(capture_, item.get());
  capture_.before_write(top(arg).get());
  python::check(PySet_Add(top(arg).get(), item.get()) == 0);
}

void FrameInterpreter::set_update(int arg) {
  PyRef iterator = get_iterator(capture_, pop().get());
  PyRef items = checked(PySequence_List(iterator.get()));
  capture_.before_write(top(arg).get());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    watch_hash(capture_, PyList_GET_ITEM(items.get(), i));
    python::check(PySet_Add(top(arg).get(), PyList_GET_ITEM(items.get(), i)) == 0);
  }
}

void FrameInterpreter::map_add(int arg) {
  PyRef value = pop(), key = pop();
  watch_hash(capture_, key.get());
  capture_.before_write(top(arg).get());
  python::check(PyDict_SetItem(top(arg).get(), key.get(), value.get()) == 0);
}

namespace {

// What a dict takes over of an object: its keys(), and an item for each, where it is no dict itself.
PyRef taken_over(Capture& capture, PyRef mapping, const char* what) {
  if (capture.concrete) return mapping;
  if (PyDict_Check(mapping.get())) {
    capture.consult(mapping.get());
    return mapping;
  }
  if (!is_python_class(Py_TYPE(mapping.get())))
    capture.stop(BreakReason::Value, fmt::format("{} a {}", what, Py_TYPE(mapping.get())->tp_name));
  PyRef items = dict_of_mapping(capture, mapping.get());
  return items ? items : mapping;  // raises
}

}  // namespace

void FrameInterpreter::dict_update(int arg) {
  PyRef mapping = taken_over(capture_, pop(), "a dict takes over");
  capture_.before_write(top(arg).get());
  if (PyDict_Update(top(arg).get(), mapping.get()) == 0) return;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
  PyErr_Clear();
  raise_python(PyExc_TypeError, fmt::format("'{}' object is not a mapping", Py_TYPE(mapping.get())->tp_name));
}

void FrameInterpreter::dict_merge(int arg) {
  PyRef mapping = taken_over(capture_, pop(), "`**` of");
  PyObject* into = top(arg).get();
  capture_.before_write(into);
  PyRef callee = top(arg + 2);
  if (_PyDict_MergeEx(into, mapping.get(), 2) == 0) return;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError) && !PyErr_ExceptionMatches(PyExc_KeyError))
    python::throw_python_error();
  const bool twice = PyErr_ExceptionMatches(PyExc_KeyError);
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), error = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  PyRef name = python::checked(_PyObject_FunctionStr(callee.get()));
  if (!twice)
    raise_python(PyExc_TypeError, fmt::format("{} argument after ** must be a mapping, not {}",
                                              python::text_of(name.get()), Py_TYPE(mapping.get())->tp_name));
  PyRef keys = python::checked(PyObject_GetAttrString(error.get(), "args"));
  PyRef key = python::checked(PyObject_Str(python::checked(PySequence_GetItem(keys.get(), 0)).get()));
  raise_python(PyExc_TypeError, fmt::format("{} got multiple values for keyword argument '{}'",
                                            python::text_of(name.get()), python::text_of(key.get())));
}

PyRef FrameInterpreter::unpacked(PyObject* value) {
  PyRef iterator = get_iterator(capture_, value);
  PyRef items = checked(PySequence_List(iterator.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyRef item = capture_.adopt(PyRef::borrow(PyList_GET_ITEM(items.get(), i)));
    python::check(PyList_SetItem(items.get(), i, item.release()) == 0);
  }
  return items;
}

namespace {

// As CPython takes a value apart: no more items than needed are asked for.
std::vector<PyRef> take_apart(Capture& capture, PyObject* value, int before, int after, PyRef* rest) {
  std::vector<PyRef> items;
  if (capture.concrete && !Py_TYPE(value)->tp_iter && !PySequence_Check(value)) {
    PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(value)->tp_name);
    python::throw_python_error();
  }
  PyRef iterator = get_iterator(capture, value);
  for (int i = 0; i < before; ++i) {
    PyRef item = next_of(capture, iterator.get());
    if (!item) {
      if (rest) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after, i);
      } else {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, i);
      }
      python::throw_python_error();
    }
    items.push_back(std::move(item));
  }
  if (!rest) {
    if (PyRef more = next_of(capture, iterator.get())) {
      PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
      python::throw_python_error();
    }
    return items;
  }
  *rest = checked(PyList_New(0));
  while (PyRef item = next_of(capture, iterator.get())) python::check(PyList_Append(rest->get(), item.get()) == 0);
  const Py_ssize_t left = PyList_GET_SIZE(rest->get());
  if (left < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + left);
    python::throw_python_error();
  }
  for (Py_ssize_t i = left - after; i < left; ++i) items.push_back(PyRef::borrow(PyList_GET_ITEM(rest->get(), i)));
  python::check(PyList_SetSlice(rest->get(), left - after, left, nullptr) == 0);
  return items;
}

}  // namespace

void FrameInterpreter::unpack_sequence(int arg) {
  PyRef value = pop_open();
  if (capture_.holds_truth(value.get()) && !PyDict_Check(value.get()) && PySequence_Size(value.get()) == arg) {
    for (int i = arg; i-- > 0;) push(PyRef::borrow(PySequence_Fast_GET_ITEM(value.get(), i)));
    return;
  }
  value = capture_.closed(std::move(value));
  std::vector<PyRef> items = take_apart(capture_, value.get(), arg, 0, nullptr);
  for (int i = arg; i-- > 0;) push(std::move(items[i]));
}

void FrameInterpreter::unpack_ex(int arg) {
  const int before = arg & 0xff, after = arg >> 8;
  PyRef value = pop(), rest;
  std::vector<PyRef> items = take_apart(capture_, value.get(), before, after, &rest);
  for (int i = after; i-- > 0;) push(std::move(items[before + i]));
  push(capture_.made(std::move(rest)));
  for (int i = before; i-- > 0;) push(std::move(items[i]));
}

}  // namespace firesteel::capture
