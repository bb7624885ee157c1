// `__torch_function__`: what tensors of the program's classes, other objects and modes have to say in torch's
// functions.
//
// A function of torch is then called as it is, on stand-ins: torch finds whom to ask, and the Python that it asks is
// followed like all other. What that calls in the end is part of the graph, under DisableTorchFunctionSubclass.
#pragma once

#include <optional>

#include <ATen/PythonTorchFunctionTLS.h>

#include "capture/builtin_rules.h"
#include "capture/capture.h"

namespace firesteel::capture {

// A tensor that a plain one may stand for in the graph: none of a class with `__torch_dispatch__`.
bool may_stand_in(PyObject* tensor);

// Torch's functions ask its class.
bool is_asked(PyObject* tensor);

// Somebody is asked in a call with these arguments (a tuple and a dict, or null).
bool is_overridden(Capture& capture, PyObject* args, PyObject* kwargs);
// The same for an attribute of a tensor; torch's own answer for its subclasses is not waited for.
bool is_attribute_overridden(Capture& capture, PyObject* tensor);
// Calls the function, on stand-ins, or reads the attribute.
PyRef call_overridden(Capture& capture, PyObject* callable, const std::string& name, const PyRef& args,
                      const PyRef& kwargs);
PyRef overridden_attribute(Capture& capture, PyObject* tensor, PyObject* name);
// Ends the capture where somebody would be asked in a function that is not looked into.
void refuse_overridden(Capture& capture, const CallArgs& args, const std::string& name);

// `as_subclass` and `_make_subclass`: the same value of the graph, as an object of another class. Empty: another call.
PyRef call_subclassing(Capture& capture, PyObject* callable, const CallArgs& args);
PyObject* subclassing_method();  // Tensor.as_subclass

// The modes that were on before the capture, which it may read, and finds again when it ends.
class FunctionModesAround {
 public:
  explicit FunctionModesAround(Capture& capture);
  ~FunctionModesAround();
  FunctionModesAround(const FunctionModesAround&) = delete;
  FunctionModesAround& operator=(const FunctionModesAround&) = delete;

 private:
  size_t count_;
  at::impl::PythonTorchFunctionTLS before_;
};

// While one lives no mode is on: what they have to say was followed, and is part of the graph that runs.
class WithoutFunctionModes {
 public:
  WithoutFunctionModes();
  ~WithoutFunctionModes();
  WithoutFunctionModes(const WithoutFunctionModes&) = delete;
  WithoutFunctionModes& operator=(const WithoutFunctionModes&) = delete;

 private:
  std::optional<at::impl::PythonTorchFunctionTLS> before_;
};

// The modes that are on; those that were pushed inside must be gone at the end of a piece.
size_t open_function_modes();
void close_function_modes(size_t left);
PyRef innermost_function_mode();
const std::vector<ControlRule>& function_mode_rules();

}  // namespace firesteel::capture
