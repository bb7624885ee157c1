// The objects that a compiled entry refers to: held weakly where they allow it, so that they die as if no entry were
// there.
//
// An entry goes when one of them dies: nothing could ever match it again. That happens before the object's memory is
// free for another, so the entry may compare bare addresses as long as it is not dead.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "python/py_ref.h"

namespace firesteel::guards {

using python::PyRef;

class Holdings {
 public:
  Holdings() = default;
  ~Holdings();
  Holdings(const Holdings&) = delete;
  Holdings& operator=(const Holdings&) = delete;

  // Borrowed, and valid until dead(). Something else must keep the object alive while the entry can be of use.
  PyObject* hold(PyObject* object);
  // For what nobody else might keep.
  PyObject* keep(PyObject* object);
  static bool is_weak(PyObject* object);
  bool holds_weakly(PyObject* object) const { return weak_.count(object) != 0; }

  bool dead() const { return dead_; }
  // Of an object that is held weakly: it is the one that died.
  bool has_lost(PyObject* object) const;
  // Called once, when the first of the objects dies, for each listener that still lives; may destroy this.
  void on_death(std::weak_ptr<const void> listener, std::function<void()> action);

  // All that is held, for a stretch of Python code; empty when dead.
  std::vector<PyRef> pin_all() const;
  // The collector sees what is kept. It must take the weak references for reachable, or they would say nothing.
  int traverse(visitproc visit, void* arg) const;

 private:
  friend struct DeathNotice;
  void died();

  std::unordered_map<PyObject*, PyRef> weak_;  // object → the weak reference
  std::vector<PyRef> kept_;
  PyRef notice_;  // what the weak references call
  std::vector<std::pair<std::weak_ptr<const void>, std::function<void()>>> on_death_;
  bool dead_ = false;
};

}  // namespace firesteel::guards
