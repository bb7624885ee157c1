// Methods of lists, dicts, sets, strings and the like: what each looks at, and what it changes.
#include <unordered_set>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/comparisons.h"
#include "capture/cpython/frame_shim.h"
#include "capture/iterables.h"
#include "capture/same_values.h"
#include "capture/tensor_keys.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

// Names of methods that change their object; all others only read it.
bool changes(PyTypeObject* type, std::string_view name) {
  static const auto* names = new std::unordered_set<std::string_view>{"append",
                                                                      "extend",
                                                                      "insert",
                                                                      "pop",
                                                                      "remove",
                                                                      "clear",
                                                                      "reverse",
                                                                      "sort",
                                                                      "update",
                                                                      "setdefault",
                                                                      "popitem",
                                                                      "add",
                                                                      "discard",
                                                                      "__setitem__",
                                                                      "__delitem__",
                                                                      "__iadd__",
                                                                      "__ior__",
                                                                      "__iand__",
                                                                      "__isub__",
                                                                      "__ixor__",
                                                                      "appendleft",
                                                                      "popleft",
                                                                      "extendleft",
                                                                      "rotate",
                                                                      "move_to_end",
                                                                      "difference_update",
                                                                      "intersection_update",
                                                                      "symmetric_difference_update",
                                                                      "__init__",
                                                                      "__imul__"};
  const bool holds = PyType_IsSubtype(type, &PyList_Type) || PyType_IsSubtype(type, &PyDict_Type) ||
                     PyType_IsSubtype(type, &PySet_Type) || std::string_view(type->tp_name) == "collections.deque";
  return holds && names->count(name) != 0;
}

bool is_dict_method(std::string_view name) { return name == "get" || name == "pop" || name == "setdefault"; }

// d.get(k), d.pop(k), d.setdefault(k): only this key is looked at.
PyRef at_key(Capture& capture, PyObject* callable, std::string_view name, CallArgs& args) {
  PyObject* dict = args[0];
  if (name == "get") {
    args.values[1] = asked_key(capture, dict, args[1]);
  } else {
    watch_key(capture, dict, args[1]);
  }
  PyObject* key = args[1];
  const Source* source = capture.source_of(dict);
  PyObject* value = PyDict_GetItemWithError(dict, key);
  python::check(value || !PyErr_Occurred());
  if (source && !is_guardable_constant(key) && !PyType_Check(key)) capture.consult(dict, name == "get");
  if (value) {
    PyRef read = !source                                           ? capture.adopt(PyRef::borrow(value))
                 : is_guardable_constant(key) || PyType_Check(key) ? capture.read_key(dict, source, key, value)
                                                                   : capture.adopt(PyRef::borrow(value));
    if (name == "pop") {
      capture.before_write(dict);
      args.call(callable);
    }
    return read;
  }
  if (source && is_guardable_constant(key)) capture.guard_absent(dict, source, key);
  if (name == "setdefault") capture.before_write(dict);
  return capture.adopt(args.call(callable));
}

void guard_same_entries(Capture& capture, PyObject* dict, const CallArgs& args) {
  for (size_t i = 1; i < args.positional(); ++i) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Check(args[i]) && PyDict_Next(args[i], &position, &key, &value))
      guard_same(capture, dict, key, value);
  }
  for (size_t i = 0; i < args.keyword_count(); ++i)
    guard_same(capture, dict, PyTuple_GET_ITEM(args.keywords.get(), i), args[args.positional() + i]);
}

void note_deque_write(Capture& capture, std::string_view name, const CallArgs& args) {
  auto& values = capture.appended.try_emplace(args[0], std::in_place).first->second;
  if (name == "append" && args.values.size() == 2 && values) {
    values->push_back(args.values[1]);
  } else {
    values.reset();
  }
}

// Numbers are only put away by these; all other methods may look at them.
void settle_numbers(Capture& capture, std::string_view name, const CallArgs& args) {
  const bool stores = name == "append" || name == "appendleft" || name == "insert" || name == "__setitem__";
  const bool takes_out = name == "pop" || name == "popleft" || name == "get" || name == "copy" || name == "keys" ||
                         name == "values" || name == "items" || name == "extend" || name == "update" ||
                         name == "clear" || name == "reverse";
  if (!stores && !takes_out) capture.settle_deep(args[0]);
  for (size_t i = 1; i < args.values.size(); ++i) {
    const bool put_away = stores && (i + 1 == args.values.size());
    if (!put_away) capture.settle_deep(args[i]);
  }
}

// `"{0.name}"`, `"{0[key]}"`: a field that C code follows into its argument.
bool looks_inside(PyObject* format) {
  bool in_name = false;
  for (const char c : python::text_of(format)) {
    if (c == '{') in_name = true;
    if (c == '}' || c == ':' || c == '!') in_name = false;
    if (in_name && (c == '.' || c == '[')) return true;
  }
  return false;
}

// Methods that take the items of what they are given.
bool steps_arguments(std::string_view name) {
  static const auto* names = new std::unordered_set<std::string_view>{
      "__init__",   "extend",   "extendleft",          "__iadd__",   "__ior__",
      "update",     "union",    "intersection",        "difference", "symmetric_difference",
      "issubset",   "fromkeys", "difference_update",   "isdisjoint", "symmetric_difference_update",
      "issuperset", "join",     "intersection_update", "writelines", "from_iterable",
  };
  return names->count(name) != 0;
}

// What a set is asked about an iterator is asked item by item, up to the one that decides.
PyRef ask_by_items(Capture& capture, std::string_view name, PyObject* set, PyObject* iterator) {
  const bool wanted = name == "isdisjoint";
  PyRef items = get_iterator(capture, iterator);
  while (PyRef item = next_of(capture, items.get())) {
    watch_key(capture, set, item.get());
    capture.consult(set);
    const int found = PySet_Contains(set, item.get());
    python::check(found >= 0);
    if ((found == 1) == wanted) return PyRef::borrow(Py_False);
  }
  return PyRef::borrow(Py_True);
}

}  // namespace

bool has_container_methods(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  return type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type || type == &PySet_Type ||
         type == &PyFrozenSet_Type || type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || type == &PyRange_Type || type == &PyComplex_Type || type == &PyBool_Type ||
         type == &PySlice_Type || name == "torch.Size" || name == "torch.dtype" || name == "torch.device" ||
         name == "collections.OrderedDict" || name == "collections.deque" || name == "collections.defaultdict" ||
         name == "re.Match" || name == "re.Pattern" || type == &PyDictKeys_Type || type == &PyDictItems_Type ||
         type == &PyDictValues_Type;
}

PyRef call_container_method(Capture& capture, PyObject* callable, PyTypeObject* type, std::string_view name,
                            CallArgs& args) {
  if (args.values.empty()) return args.call(callable);  // raises
  PyObject* self = args[0];
  if (!PyObject_TypeCheck(self, type)) return args.call(callable);
  if (is_deque(self) && !guards::is_plain_deque(self))
    capture.stop(BreakReason::Value, "a deque of a class of its own");
  if (PyDict_Check(self) && is_dict_method(name) && args.values.size() >= 2 && args.values.size() <= 3 &&
      !args.keyword_count())
    return at_key(capture, callable, name, args);
  if (PyDict_Check(self) && args.values.size() == 2) {
    if (name == "__getitem__" || name == "__contains__") {
      args.values[1] = asked_key(capture, self, args[1]);
      const Source* source = capture.source_of(self);
      PyObject* value = PyDict_GetItemWithError(self, args[1]);
      python::check(value || !PyErr_Occurred());
      if (source && !is_guardable_constant(args[1])) capture.consult(self, /*finds_tensors=*/true);
      if (source && !value) capture.guard_absent(self, source, args[1]);
      if (name == "__contains__") {
        if (source && value) capture.guard_present(self, source, args[1]);
        return PyRef::borrow(value ? Py_True : Py_False);
      }
      if (!value) return capture.adopt(args.call(callable));
      if (source && is_guardable_constant(args[1])) return capture.read_key(self, source, args[1], value);
      return capture.adopt(PyRef::borrow(value));
    }
  }
  if (name == "__getitem__" && args.values.size() == 2 && (PyList_Check(self) || PyTuple_Check(self))) {
    capture.consult(self);
    return capture.adopt(args.call(callable));
  }
  if (PyRef found = search_by_items(capture, name, args)) return found;
  if (std::string_view(type->tp_name) == "re.Pattern" && capture.source_of(self))
    capture.add_guard({GuardKind::Identity, capture.source_of(self), PyRef::borrow(self)});
  // `super().__len__()` in a class with one of its own.
  const bool is_below = !is_c_class(Py_TYPE(self)) && (name == "__len__" || name == "__iter__") &&
                        _PyType_Lookup(Py_TYPE(self), interned(name.data()).get()) != callable;
  if (is_below && args.values.size() == 1) {
    if (name == "__iter__") capture.consult(self);
    if (name == "__len__" && !PyUnicode_Check(self)) capture.guard_length(self);
    return capture.made(args.call(callable));
  }
  if (name == "__iter__" && args.values.size() == 1) return get_iterator(capture, self);
  if ((name == "isdisjoint" || name == "issuperset") && PyAnySet_Check(self) && args.values.size() == 2 &&
      !args.keyword_count() && is_iterable(args[1]) && (PyIter_Check(args[1]) || is_python_class(Py_TYPE(args[1]))) &&
      !PyAnySet_Check(args[1]))
    return ask_by_items(capture, name, self, args[1]);
  if (name == "__len__" && args.values.size() == 1) return checked(PyLong_FromSsize_t(length_of(capture, self)));
  const bool writes = changes(type, name);
  if (name == "sort") follow_keyword(args, "key");
  settle_numbers(capture, name, args);
  for (size_t i = 1; i < args.values.size(); ++i) {
    const bool takes_items = name != "append" && name != "insert" && name != "add" && name != "appendleft" &&
                             name != "__setitem__" && name != "setdefault" && name != "get" && name != "pop" &&
                             name != "index" && name != "count" && name != "remove" && name != "discard";
    // An iterator, or an object of the program's that can give one, is a value like any other unless it is asked to.
    const bool is_plain = is_iterable(args[i]) && !PyIter_Check(args[i]) && !is_python_class(Py_TYPE(args[i]));
    const bool fills_dict = PyDict_Check(self) && (name == "update" || name == "__init__" || name == "__ior__");
    if (fills_dict && i < args.positional()) {
      // CPython copies a dict as it is, unless its class has another way to go through it.
      const bool as_dict = PyDict_Check(args[i]) && Py_TYPE(args[i])->tp_iter == PyDict_Type.tp_iter;
      if (as_dict && !PyDict_CheckExact(args[i])) capture.consult(args[i]);
      PyRef items = !as_dict                     ? dict_of_mapping(capture, args[i])
                    : PyDict_CheckExact(args[i]) ? PyRef()
                                                 : checked(PyDict_Copy(args[i]));
      if (items) args.values[i] = std::move(items);
    }
    if (steps_arguments(name) ? is_iterable(args[i]) : takes_items && is_plain) {
      if (!is_plain) settle(capture, args.values[i]);
      args.values[i] = capture.consult_deep(args[i]);
      if (i < args.positional() && (PyDict_Check(self) || PyAnySet_Check(self))) watch_keys(capture, self, args[i]);
    } else if (name == "index" || name == "count" || (name == "remove" && !PyAnySet_Check(self)) ||
               PyUnicode_Check(self) || (takes_items && is_iterable(args[i]))) {
      watch_comparison(capture, args[i], "eq");
    } else if (PyAnySet_Check(self) || (PyDict_Check(self) && i == 1)) {
      watch_key(capture, self, args[i]);
    }
  }
  if ((PyUnicode_Check(self) && (name == "format" || name == "format_map")) ||
      ((PyUnicode_Check(self) || PyBytes_Check(self)) && name == "__mod__")) {
    for (size_t i = 1; i < args.values.size(); ++i) {
      watch_text(capture, args[i]);
      if (name != "__mod__" && looks_inside(self) && !capture.is_deep_constant(args[i]))
        capture.stop(BreakReason::Value, fmt::format("a text reads attributes of a {}", Py_TYPE(args[i])->tp_name));
    }
  }
  // Views look at their dict when they are used; what appends needs not know what is there.
  const bool looks = name != "append" && name != "keys" && name != "values" && name != "items" &&
                     !(PyDict_Check(self) && (name == "__setitem__" || name == "update"));
  const bool is_container = PyList_Check(self) || PyDict_Check(self) || PyAnySet_Check(self) || PyTuple_Check(self) ||
                            guards::is_plain_deque(self);
  if (looks && is_container) {
    const bool compares = name == "index" || name == "count" || name == "remove";
    if (compares && !PyAnySet_Check(self)) watch_comparison(capture, self, "eq");
    capture.consult(self);
  }
  if (PyObject* dict = fs_view_dict(self)) capture.consult(dict);
  if (writes) capture.before_write(self);
  if (writes && PyDict_Check(self) && name == "__setitem__" && args.values.size() == 3)
    guard_same(capture, self, args[1], args[2]);
  if (writes && PyDict_Check(self) && name == "update") guard_same_entries(capture, self, args);
  if (writes && guards::is_plain_deque(self)) note_deque_write(capture, name, args);
  PyRef result = args.call(callable);
  if (result.get() == Py_None || result.get() == self) return result;
  return result_of(capture, std::move(result));
}

}  // namespace firesteel::capture
