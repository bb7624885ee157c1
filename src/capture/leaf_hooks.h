// Hooks that captured code leaves on tensors. On leaves from outside they come when the graph has run, and are no part
// of it; on all others the graph leaves them, and they are told afterwards what to call.
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
    PyRef tensor, method, function;  // a real tensor, the name of what leaves the hook; no tensor: the graph leaves it
    PyRef hook;                      // the TensorHook that keeps the handle, where there is one
  };
  // `tensor.register_hook(function)` and `tensor.retain_grad()`. Empty for all else.
  static PyRef leave(Capture& capture, PyObject* callable, const CallArgs& args);
  static std::vector<Hook> left(const Capture& capture);

  // The hook behind a handle that captured code has got; null for all other objects.
  static PyRef hook_of(PyObject* handle);
  static PyObject* handle_function();
  // `handle.remove()`, as a call of the graph.
  static PyRef remove(Capture& capture, PyObject* callable, CallArgs& args);

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
