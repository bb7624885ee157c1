// Hooks that captured code leaves on leaves from outside: on them when the graph has run, and no part of it.
#pragma once

#include <vector>

#include "capture/capture.h"

namespace firesteel::capture {

// The hooks of one capture. While it lives it is that of its thread.
class LeafHooks {
 public:
  explicit LeafHooks(Capture& capture);
  ~LeafHooks();
  LeafHooks(const LeafHooks&) = delete;
  LeafHooks& operator=(const LeafHooks&) = delete;

  struct Hook {
    PyRef tensor, method, function;  // a real tensor, the name of what leaves the hook
  };
  // `tensor.register_hook(function)`. Empty for all else, for tensors that were computed, and where the handle is used.
  static PyRef leave(Capture& capture, PyObject* callable, const CallArgs& args);
  static std::vector<Hook> left(const Capture& capture);

  // For one call whose result is dropped at once; `callable` is null for all others.
  class Result {
   public:
    explicit Result(PyObject* callable);
    ~Result();
    Result(const Result&) = delete;
    Result& operator=(const Result&) = delete;

   private:
    PyObject* before_;
  };

 private:
  Capture& capture_;
  LeafHooks* outer_;
  std::vector<Hook> hooks_;
};

}  // namespace firesteel::capture
