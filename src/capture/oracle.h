// For tests: notices objects that existed before a capture and came into it without a source. Nothing guards them.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "capture/capture.h"

namespace firesteel::capture {

class Oracle {
 public:
  // From now on captures are watched; what was noticed so far is forgotten.
  static void enable(bool on);
  static bool enabled();
  // `a list in f (model.py:3)`, once each.
  static std::vector<std::string> reports();

  // Watches the captures of this thread while it lives: remembers all objects there are now.
  Oracle();
  ~Oracle();
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  // Made for this very call, before the capture began.
  static void allow(PyObject* object);
  // Looks at what an instruction left on the stack.
  static void look(const Capture& capture, PyCodeObject* code, int line, const std::vector<PyRef>& stack);

 private:
  bool is_old(PyObject* object) const { return old_.count(object) != 0; }
  void allow_constants(PyObject* constant);

  Oracle* outer_;
  PyRef objects_;  // alive, so that no new object takes the place of an old one
  std::unordered_set<PyObject*> old_;
};

}  // namespace firesteel::capture
