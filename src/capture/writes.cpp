// Changes to what existed before the capture: kept in the journal, so that they can be taken back and told.
#include <algorithm>

#include <fmt/format.h>

#include "capture/capture.h"
#include "capture/outside_iterators.h"
#include "python/errors.h"

namespace firesteel::capture {

void Capture::before_write(PyObject* container) {
  if (concrete || is_made(container)) return;
  const bool known = PyDict_Check(container) || PyList_Check(container) || PySet_Check(container) ||
                     PyCell_Check(container) || guards::is_plain_deque(container);
  if (!known) stop(BreakReason::Write, fmt::format("changing a {}", Py_TYPE(container)->tp_name));
  if (OutsideIterators::goes_over(*this, container))
    stop(BreakReason::Iterator, "an iterator over a list that changes");
  journal.before(container);
}

void Capture::before_slot_write(PyObject* object, PyObject* member) {
  if (concrete || is_made(object)) return;
  journal.before_slot(object, member);
}

PyObject* Capture::object_at(const Source* source) const {
  for (const auto& [object, found] : provenance_) {
    if (found == source) return object;
  }
  return nullptr;
}

void Capture::keep_apart(PyObject* object, const Source* source) {
  for (const auto& [other, at] : provenance_) {
    if (other == object || Py_TYPE(other) != Py_TYPE(object) || at->is_object()) continue;
    Guard guard{GuardKind::Distinct, source};
    guard.other = at;
    add_guard(std::move(guard));
  }
}

void Capture::tell_apart(PyObject* object) {
  const Source* source = concrete ? nullptr : source_of(object);
  if (!source) return;
  constexpr size_t kFew = 8;  // of more each is guarded to be the very object that it is
  std::vector<PyObject*>& others = told_apart_[Py_TYPE(object)];
  if (std::find(others.begin(), others.end(), object) != others.end()) return;
  if (PyFunction_Check(object) || (others.size() >= kFew && !source->is_object())) {
    add_guard({GuardKind::Identity, source, PyRef::borrow(object)});
    for (const Source* place : other_places_[object]) add_guard({GuardKind::Identity, place, PyRef::borrow(object)});
  } else {
    for (size_t i = 0; i < std::min(others.size(), kFew); ++i) {
      const Source* other = source_of(others[i]);
      if (other->is_object() && source->is_object()) continue;
      Guard guard{GuardKind::Distinct, source};
      guard.other = other;
      add_guard(std::move(guard));
    }
  }
  others.push_back(object);
}

void Capture::guard_absent(PyObject* dict, const Source* in, PyObject* key) {
  if (!in || concrete) return;
  if (journal.touched(dict)) {
    const int was_there = PyDict_Contains(journal.original(dict), key);
    python::check(was_there >= 0);
    if (was_there) return;
  }
  add_guard({GuardKind::Absent, in, PyRef::borrow(key)});
}

PyRef Capture::read_key(PyObject* dict, const Source* in, PyObject* key, PyObject* value) {
  if (concrete) return PyRef::borrow(value);
  const bool as_before =
      in && (!journal.touched(dict) || PyDict_GetItemWithError(journal.original(dict), key) == value);
  if (as_before) return admit_value(value, sources.item(in, key));
  return adopt(PyRef::borrow(value));
}

}  // namespace firesteel::capture
