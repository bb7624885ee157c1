// Copies of containers, and putting them back.
#include "capture/journal.h"

#include <Python.h>
#include <structmember.h>

#include "capture/cpython/frame_shim.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::check;
using python::checked;

PyRef copy_of(PyObject* container) {
  if (PyDict_Check(container)) return plain_copy(container);
  if (PyList_Check(container)) return checked(PyList_GetSlice(container, 0, PyList_GET_SIZE(container)));
  if (PyAnySet_Check(container)) return checked(PySet_New(container));
  return checked(PySequence_List(container));
}

void refill_dict(PyObject* dict, PyObject* copy) {
  const bool ordered = PyODict_Check(dict);
  auto set = [&](PyObject* key, PyObject* value) {
    check((ordered ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) == 0);
  };
  auto remove = [&](PyObject* key) { check((ordered ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key)) == 0); };
  PyRef keys = checked(PyDict_Keys(dict));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    const int kept = PyDict_Contains(copy, key);
    check(kept >= 0);
    if (!kept) remove(key);
  }
  // Where a key is missing or stands elsewhere, it and all that follow are taken out and put back in order.
  PyRef left = checked(PyDict_Keys(plain_copy(dict).get()));
  Py_ssize_t next = 0;
  bool moved = false;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(copy, &position, &key, &value)) {
    PyObject* now = PyDict_GetItemWithError(dict, key);
    if (next < PyList_GET_SIZE(left.get()) && now) {
      const int same = PyObject_RichCompareBool(PyList_GET_ITEM(left.get(), next++), key, Py_EQ);
      check(same >= 0);
      moved = moved || !same;
    } else {
      moved = true;
    }
    if (now && moved) remove(key);
    if (now != value || moved) set(key, value);
  }
}

}  // namespace

PyRef plain_copy(PyObject* dict) {
  if (!PyODict_Check(dict)) return checked(PyDict_Copy(dict));
  PyRef copy = checked(PyDict_New());
  PyRef keys = checked(PyODict_Type.tp_iter(dict));
  while (PyRef key = PyRef::steal(PyIter_Next(keys.get()))) {
    PyObject* value = PyDict_GetItemWithError(dict, key.get());
    check(value && PyDict_SetItem(copy.get(), key.get(), value) == 0);
  }
  check(!PyErr_Occurred());
  return copy;
}

bool is_deque(PyObject* object) {
  static auto* type = reinterpret_cast<PyTypeObject*>(
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("collections")).get(), "deque")).release());
  return PyObject_TypeCheck(object, type);
}

int64_t slot_offset(PyObject* member) { return reinterpret_cast<PyMemberDescrObject*>(member)->d_member->offset; }

PyObject*& slot_at(PyObject* object, int64_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

PyObject*& slot_value(PyObject* object, PyObject* member) { return slot_at(object, slot_offset(member)); }

void refill(PyObject* container, PyObject* copy) {
  if (PyDict_Check(container)) return refill_dict(container, copy);
  if (PyList_Check(container)) {
    check(PyList_SetSlice(container, 0, PyList_GET_SIZE(container), copy) == 0);
  } else if (PyAnySet_Check(container)) {
    check(PySet_Clear(container) == 0);
    PyRef iterator = checked(PyObject_GetIter(copy));
    while (PyRef item = PyRef::steal(PyIter_Next(iterator.get()))) check(PySet_Add(container, item.get()) == 0);
  } else {
    checked(PyObject_CallMethod(container, "clear", nullptr));
    checked(PyObject_CallMethod(container, "extend", "(O)", copy));
  }
}

void Journal::before(PyObject* container) {
  ++writes_;
  if (touched(container)) return;
  PyRef copy = PyCell_Check(container) ? PyRef::borrow(PyCell_GET(container)) : copy_of(container);
  index_.emplace(container, changes_.size());
  changes_.push_back({PyRef::borrow(container), {}, std::move(copy)});
}

void Journal::before_slot(PyObject* object, PyObject* member) {
  ++writes_;
  for (const Change& change : changes_) {
    if (change.container.get() == object && change.member.get() == member) return;
  }
  changes_.push_back({PyRef::borrow(object), PyRef::borrow(member), PyRef::borrow(slot_value(object, member))});
}

PyObject* Journal::original(PyObject* container) const {
  auto found = index_.find(container);
  return found == index_.end() ? container : changes_[found->second].before.get();
}

namespace {

// What the container of a change holds now.
PyRef current(const Journal::Change& change) {
  PyObject* container = change.container.get();
  if (change.member) return PyRef::borrow(slot_value(container, change.member.get()));
  if (PyCell_Check(container)) return PyRef::borrow(PyCell_GET(container));
  return copy_of(container);
}

void put(const Journal::Change& change, PyObject* value) {
  PyObject* container = change.container.get();
  if (change.member) {
    PyRef old = PyRef::steal(slot_value(container, change.member.get()));
    slot_value(container, change.member.get()) = Py_XNewRef(value);
  } else if (PyCell_Check(container)) {
    PyRef old = PyRef::steal(PyCell_GET(container));
    PyCell_SET(container, Py_XNewRef(value));
  } else {
    refill(container, value);
  }
}

// What was short for a moment may be there again. Filling a container anew can be done any number of times.
void put_for_sure(const Journal::Change& change, PyObject* value) {
  constexpr int kTries = 8;
  for (int tries = 0; tries < kTries; ++tries) {
    try {
      return put(change, value);
    } catch (...) {
      PyErr_Clear();  // out of memory
    }
  }
}

}  // namespace

void Journal::roll_back() {
  if (changes_.empty()) return;
  python::ErrorAside aside;
  for (size_t i = changes_.size(); i-- > 0;) put_for_sure(changes_[i], changes_[i].before.get());
  index_.clear();
  changes_.clear();
}

Journal::Hidden::Hidden(Journal& journal) : journal_(journal) {
  if (journal.empty() || !fs_has_other_threads(PyThreadState_Get())) return;
  for (const Change& change : journal.changes_) pending_.push_back(current(change));
  for (size_t i = journal.changes_.size(); i-- > 0;) put(journal.changes_[i], journal.changes_[i].before.get());
}

Journal::Hidden::~Hidden() {
  python::ErrorAside aside;
  for (size_t i = 0; i < pending_.size(); ++i) put_for_sure(journal_.changes_[i], pending_[i].get());
}

}  // namespace firesteel::capture
