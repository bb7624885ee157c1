// Writes to objects that existed before a capture: they really happen, and are all taken back when it ends.
//
// The first write to a container keeps a copy of what it held. Reads in between see one consistent state; what the
// containers hold at the end, against the copies, is what a compiled call will have to write.
#pragma once

#include <unordered_map>
#include <vector>

#include "python/py_ref.h"

namespace firesteel::capture {

using python::PyRef;

class Journal {
 public:
  Journal() = default;
  ~Journal() { roll_back(); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Before a dict (also an instance's or a module's), list, set, deque or cell is changed.
  void before(PyObject* container);
  // Before a slot of an object is; `member` is the class's descriptor.
  void before_slot(PyObject* object, PyObject* member);

  bool touched(PyObject* container) const { return index_.count(container) != 0; }
  // The container as it was before the first write: a copy of it, or itself.
  PyObject* original(PyObject* container) const;
  bool empty() const { return changes_.empty(); }
  // How many writes there were, whatever they were to.
  size_t writes() const { return writes_; }

  struct Change {
    PyRef container;
    PyRef member;  // of a slot
    PyRef before;  // a copy; a cell's or slot's value, which may be empty
  };
  const std::vector<Change>& changes() const { return changes_; }

  void roll_back();

  // Other threads may run: they see what was there before the capture, until this ends.
  class Hidden {
   public:
    explicit Hidden(Journal& journal);
    ~Hidden();
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;

   private:
    Journal& journal_;
    std::vector<PyRef> pending_;
  };

 private:
  std::vector<Change> changes_;
  std::unordered_map<PyObject*, size_t> index_;
  size_t writes_ = 0;
};

// The value in a slot, borrowed, maybe null; and the slot's place in the object.
PyObject*& slot_value(PyObject* object, PyObject* member);
int64_t slot_offset(PyObject* member);
PyObject*& slot_at(PyObject* object, int64_t offset);
// Makes a container hold what the copy holds, without running Python code of its class.
void refill(PyObject* container, PyObject* copy);
// What a dict holds, as a dict of the plain kind and in the dict's order, which an OrderedDict keeps apart.
PyRef plain_copy(PyObject* dict);
bool is_deque(PyObject* object);

}  // namespace firesteel::capture
