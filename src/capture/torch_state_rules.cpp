// Functions of torch that read its state, and those that change it.
#include <fmt/format.h>

#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "capture/marked_calls.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

// Answers that the packed ambient guard covers, or that hold for all plain tensors.
PyRef ambient(Capture& capture, PyObject* callable, CallArgs& args) {
  Suspended suspended(capture);
  return args.call(callable);
}

// Changes torch's thread-local state: runs now, and again with the graph.
PyRef effect(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef name = python::attribute(callable, "__name__");
  return capture.effect_call(callable, fmt::format("torch.{}", python::text_of(name.get())), args);
}

// What a graph of ATen operators computes depends on the default dtype when it runs: it has no switch for it.
PyRef set_default_dtype(Capture& capture, PyObject* callable, CallArgs& args) {
  if (!capture.runs_python_again) refuse(capture, callable);
  return effect(capture, callable, args);
}

// Deterministic mode decides how operators compute when they run, as the default dtype does. What torch's function sets
// beside it is a setting of Inductor's.
PyRef use_deterministic_algorithms(Capture& capture, PyObject* callable, CallArgs& args) {
  if (!capture.runs_python_again || args.positional() != 1 || args.keyword_count() > 1) refuse(capture, callable);
  static PyObject* function = [] {
    PyRef module = python::checked(PyImport_ImportModule("torch._C"));
    return python::attribute(module.get(), "_set_deterministic_algorithms").release();
  }();
  if (!args.keyword_count()) {
    args.values.push_back(PyRef::borrow(Py_False));
    args.keywords = python::checked(Py_BuildValue("(s)", "warn_only"));
  }
  return effect(capture, function, args);
}

}  // namespace

const std::vector<ControlRule>& torch_state_rules() {
  static const auto* rows = new std::vector<ControlRule>{
      {"torch", "finfo", ambient},
      {"torch", "iinfo", ambient},
      {"torch", "is_grad_enabled", ambient},
      {"torch", "get_default_dtype", ambient},
      {"torch", "is_inference_mode_enabled", ambient},
      {"torch", "is_autocast_enabled", ambient},
      {"torch", "is_autocast_cpu_enabled", ambient},
      {"torch", "is_autocast_cache_enabled", ambient},
      {"torch", "get_autocast_dtype", ambient},
      {"torch", "get_autocast_gpu_dtype", ambient},
      {"torch", "get_autocast_cpu_dtype", ambient},
      {"torch.amp.autocast_mode", "is_autocast_available", ambient},
      {"torch._C", "_is_autocast_available", ambient},
      {"torch", "are_deterministic_algorithms_enabled", ambient},
      {"torch", "is_deterministic_algorithms_warn_only_enabled", ambient},
      {"torch._C", "_get_deterministic_algorithms", ambient},
      {"torch._C", "_get_deterministic_algorithms_warn_only", ambient},
      {"torch", "get_device", ambient},
      {"torch.cuda", "is_available", ambient},
      {"torch._C", "_get_tracing_state", ambient},
      {"torch._C", "_is_torch_function_enabled", ambient},
      {"torch._C", "_is_torch_function_mode_enabled", ambient},
      {"torch._C", "_has_torch_function", ambient},
      {"torch._C", "_has_torch_function_unary", ambient},
      {"torch._C", "_has_torch_function_variadic", ambient},
      {"torch._C", "_is_tracing", ambient},
      {"torch._C", "_get_privateuse1_backend_name", ambient},
      {"torch._C", "_get_default_device", ambient},
      {"torch._C._functorch", "peek_interpreter_stack", ambient},
      {"torch", "promote_types", ambient},
      {"torch", "is_floating_point", ambient},
      {"torch", "is_complex", ambient},
      {"torch", "is_tensor", ambient},
      {"torch._C", "_set_grad_enabled", effect},
      {"torch", "set_autocast_enabled", effect},
      {"torch", "set_autocast_dtype", effect},
      {"torch", "set_autocast_cache_enabled", effect},
      {"torch", "autocast_increment_nesting", effect},
      {"torch", "autocast_decrement_nesting", effect},
      {"torch", "clear_autocast_cache", effect},
      {"torch", "set_default_dtype", set_default_dtype},
      {"torch", "use_deterministic_algorithms", use_deterministic_algorithms},
      {"firesteel._C", "_torch_function_state", ambient},
      {"firesteel._C", "_set_torch_function_state", effect},
      {"torch._C", "_set_sdp_use_flash", effect},
      {"torch._C", "_set_sdp_use_mem_efficient", effect},
      {"torch._C", "_set_sdp_use_math", effect},
      {"torch._C", "_set_sdp_use_cudnn", effect},
      {"torch._C", "_set_sdp_use_overrideable", effect},
      {"torch._C", "_set_sdp_priority_order", effect},
      {"torch._C", "_get_flash_sdp_enabled", ambient},
      {"torch._C", "_get_mem_efficient_sdp_enabled", ambient},
      {"torch._C", "_get_math_sdp_enabled", ambient},
      {"torch._C", "_get_cudnn_sdp_enabled", ambient},
      {"torch._C", "_get_overrideable_sdp_enabled", ambient},
      {"torch._C", "_get_sdp_priority_order", ambient},
      {"torch._C._autograd", "_saved_tensors_hooks_disable", effect},
      {"torch._C._autograd", "_saved_tensors_hooks_enable", effect},
      {"torch._C._autograd", "_saved_tensors_hooks_is_enabled", ambient},
      {"torch._C._autograd", "_saved_tensors_hooks_get_disabled_error_message", ambient},
      {"torch._C", "_are_functorch_transforms_active", ambient},
  };
  return *rows;
}

}  // namespace firesteel::capture
