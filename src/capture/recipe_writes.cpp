// What a capture has written, as changes to make when its graph has run.
#include <Python.h>

#include <unordered_map>

#include "capture/callables.h"
#include "capture/class_writes.h"
#include "capture/late_calls.h"
#include "capture/leaf_hooks.h"
#include "capture/outside_iterators.h"
#include "capture/recipe_maker.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

void RecipeMaker::write_dict(int32_t target, PyObject* container, PyObject* before) {
  PyRef ordered = PyODict_Check(container) ? plain_copy(container) : PyRef::borrow(container);
  PyObject* dict = ordered.get();
  // Keys that stayed must stand in the same order, with new ones behind them; else the whole is filled anew.
  std::vector<PyObject*> kept_before, kept_now;
  bool new_seen = false, in_order = true;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(before, &position, &key, &value)) {
    if (PyDict_Contains(dict, key) == 1) kept_before.push_back(key);
  }
  position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    const bool was = PyDict_Contains(before, key) == 1;
    if (was) kept_now.push_back(key);
    in_order = in_order && !(was && new_seen);
    new_seen = new_seen || !was;
  }
  for (size_t i = 0; in_order && i < kept_now.size(); ++i) {
    in_order = kept_now[i] == kept_before[i] || PyObject_RichCompareBool(kept_now[i], kept_before[i], Py_EQ) == 1;
  }
  PyErr_Clear();
  if (!in_order) {
    capture_.consult(container);
    book_.writes.push_back({WriteKind::Refill, target, {}, add(RecipeKind::Dict, nullptr, dict_parts(dict))});
    return;
  }
  position = 0;
  while (PyDict_Next(before, &position, &key, &value)) {
    if (PyDict_Contains(dict, key) == 0)
      book_.writes.push_back({WriteKind::DeleteKey, target, PyRef::borrow(key), target});
  }
  position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (PyDict_GetItemWithError(before, key) == value) continue;
    if (hashes_by_python(key)) throw NoRecipe{PyRef::borrow(key), "a key of a class that hashes itself"};
    book_.writes.push_back({WriteKind::SetKey, target, PyRef::borrow(key), of(value)});
  }
}

void RecipeMaker::write_list(int32_t target, const Source* source, PyObject* list, PyObject* before) {
  const Py_ssize_t size = PyList_GET_SIZE(list), old = PyList_GET_SIZE(before);
  bool appended = size >= old;
  for (Py_ssize_t i = 0; appended && i < old; ++i) appended = PyList_GET_ITEM(list, i) == PyList_GET_ITEM(before, i);
  if (appended) {
    for (Py_ssize_t i = old; i < size; ++i)
      book_.writes.push_back({WriteKind::Append, target, {}, of(PyList_GET_ITEM(list, i))});
    return;
  }
  std::unordered_map<PyObject*, Py_ssize_t> places;
  for (Py_ssize_t i = 0; i < old; ++i) places.emplace(PyList_GET_ITEM(before, i), i);
  std::vector<int32_t> items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    auto found = places.find(item);
    items.push_back(found == places.end() ? of(item)
                                          : load(capture_.sources.item(source, static_cast<int64_t>(found->second))));
  }
  capture_.guard_length(list);
  book_.writes.push_back({WriteKind::Refill, target, {}, add(RecipeKind::List, nullptr, std::move(items))});
}

std::vector<int32_t> RecipeMaker::items_of(PyObject* list) {
  std::vector<int32_t> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) items.push_back(of(PyList_GET_ITEM(list, i)));
  held_.push_back(PyRef::borrow(list));
  return items;
}

void RecipeMaker::keep_apart(PyObject* container, const Source* source) {
  PyObject* object = container;
  if (source->kind == AccessKind::InstanceDict) {
    source = source->parent;
    object = capture_.object_at(source);
  }
  if (!object || source->is_object()) return;
  capture_.keep_apart(object, source);
}

int32_t RecipeMaker::partial_of(std::vector<int32_t> function_and_arguments) {
  static PyObject* const partial =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("functools")).get(), "partial")).release();
  const int32_t given = add(RecipeKind::Tuple, nullptr, std::move(function_and_arguments));
  return add(RecipeKind::Reduced, nullptr, {constant(partial), given});
}

void RecipeMaker::add_writes() {
  for (size_t i = 0; i < capture_.journal.changes().size(); ++i) {
    const Journal::Change change = capture_.journal.changes()[i];
    PyObject* container = change.container.get();
    const Source* source = capture_.need_source(container);
    const int32_t target = load(source);
    keep_apart(container, source);
    if (change.member) {
      PyObject* member = change.member.get();
      book_.writes.push_back({WriteKind::SetSlot, target, {}, of(slot_value(container, member)), slot_offset(member)});
    } else if (PyCell_Check(container)) {
      book_.writes.push_back({WriteKind::SetCell, target, {}, of(PyCell_GET(container))});
    } else if (PyDict_Check(container)) {
      write_dict(target, container, change.before.get());
    } else if (PyList_Check(container)) {
      write_list(target, source, container, change.before.get());
    } else if (auto only = capture_.appended.find(container); only != capture_.appended.end() && only->second) {
      for (const PyRef& value : *only->second) book_.writes.push_back({WriteKind::Append, target, {}, of(value.get())});
    } else if (is_deque(container)) {
      PyRef now = checked(PySequence_List(container));
      capture_.consult(container);
      book_.writes.push_back({WriteKind::Refill, target, {}, add(RecipeKind::List, nullptr, items_of(now.get()))});
    } else {
      std::vector<int32_t> items;
      PyRef plain = checked(PySet_New(container));  // its class may iterate in another way
      PyRef iterator = checked(PyObject_GetIter(plain.get()));
      while (PyRef item = PyRef::steal(PyIter_Next(iterator.get()))) items.push_back(of(item.get()));
      capture_.consult(container);
      book_.writes.push_back({WriteKind::Refill, target, {}, add(RecipeKind::Set, nullptr, std::move(items))});
    }
  }
  for (const auto& [tensor, method, function, hook] : LeafHooks::left(capture_)) {
    const int32_t on = tensor ? load(capture_.need_source(tensor.get())) : -1;
    const int32_t called = of(function.get());
    if (!hook) {
      book_.writes.push_back({WriteKind::LeaveHook, on, method, called});
    } else if (!tensor) {
      book_.writes.push_back({WriteKind::LeaveHook, constant(hook.get()), interned("fill"), called});
    } else {
      const int32_t both = add(RecipeKind::Tuple, nullptr, {on, called});
      book_.writes.push_back({WriteKind::LeaveHook, constant(hook.get()), interned("leave"), both});
    }
  }
  for (const auto& [type, name, value] : ClassWrites::left(capture_)) {
    PyObject* before = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type.get()), name.get());
    if (value.get() == before) continue;  // as it was
    static PyObject* const set = checked(PyObject_GetAttrString(PyImport_AddModule("builtins"), "setattr")).release();
    const int32_t setter = partial_of({constant(set), constant(type.get()), constant(name.get())});
    book_.writes.push_back({WriteKind::LeaveHook, setter, interned("__call__"), of(value.get())});
  }
  for (const auto& [iterator, count] : OutsideIterators::steps(capture_)) {
    const int32_t target = load(capture_.need_source(iterator.get()));
    book_.writes.push_back({WriteKind::Step, target, {}, target, count});
  }
  for (const auto& [tensor, gradient] : capture_.written_gradients)
    book_.writes.push_back({WriteKind::SetGrad, load(capture_.need_source(tensor.get())), {}, of(gradient.get())});
  for (const auto& [function, given] : LateCalls::left(capture_)) {
    const int32_t caller = partial_of({constant(LateCalls::caller()), constant(function.get())});
    book_.writes.push_back({WriteKind::LeaveHook, caller, interned("__call__"), of(given.get())});
  }
}

}  // namespace firesteel::capture
