// Calls that come when the graph has run: of functions that only tell of what happens, which the program names.
#pragma once

#include <vector>

#include "capture/capture.h"

namespace firesteel::capture {

// Those of one capture. While it lives it is that of its thread.
class LateCalls {
 public:
  explicit LateCalls(Capture& capture);
  ~LateCalls();
  LateCalls(const LateCalls&) = delete;
  LateCalls& operator=(const LateCalls&) = delete;

  struct Call {
    PyRef function;
    PyRef given;  // made inside: the arguments, and a dict of those that have names
  };
  // What it gives is None.
  static PyRef leave(Capture& capture, PyObject* function, const CallArgs& args);
  static std::vector<Call> left(const Capture& capture);
  // Calls `function` with what a Call was given.
  static PyObject* caller();

 private:
  Capture& capture_;
  LateCalls* outer_;
  std::vector<Call> calls_;
};

}  // namespace firesteel::capture
