// Functions of torch that read its state, and those that change it.
#include <algorithm>

#include <fmt/format.h>

#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "capture/getters.h"
#include "capture/marked_calls.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

// Answers that the packed ambient guard covers, or that hold for all plain tensors.
PyRef ambient(Capture& capture, PyObject* callable, CallArgs& args) {
  Suspended suspended(capture);
  return args.call(callable);
}

// What a C function tells of the process, as a constant: it is asked again at every call.
PyRef asked_again(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool constant = std::all_of(args.values.begin(), args.values.end(),
                                    [](const PyRef& value) { return is_guardable_constant(value.get()); });
  PyRef name = python::attribute(callable, "__name__"), owner = python::attribute(callable, "__self__");
  if (!owner || !PyModule_Check(owner.get())) {
    owner = python::attribute(callable, "__module__");
    if (owner && PyUnicode_Check(owner.get())) owner = PyRef::steal(PyImport_Import(owner.get()));
    PyErr_Clear();
  }
  if (!constant || args.keyword_count() || !owner || !PyModule_Check(owner.get())) refuse(capture, callable);
  for (const PyRef& value : args.values) capture.settle(value.get());
  PyRef value = ambient(capture, callable, args);
  if (!is_guardable_constant(value.get()) && !PyTuple_CheckExact(value.get())) refuse(capture, callable);
  const Source* module = capture.sources.pinned(owner.get(), std::string(PyModule_GetName(owner.get())));
  PyObject* caller = caller_of(name.get(), args.tuple().get());
  return capture.admit(value.get(), capture.sources.computed(caller, module, nullptr));
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
      {"torch", "get_num_threads", asked_again},
      {"torch", "get_num_interop_threads", asked_again},
      {"torch", "is_anomaly_enabled", asked_again},
      {"torch", "is_anomaly_check_nan_enabled", asked_again},
      {"torch._C", "_get_warnAlways", asked_again},
      {"torch._C", "_get_float32_matmul_precision", asked_again},
      {"torch._C", "_get_fp32_precision_getter", asked_again},
      {"torch._C", "_get_cublas_allow_tf32", asked_again},
      {"torch._C", "_get_cublas_allow_fp16_reduced_precision_reduction", asked_again},
      {"torch._C", "_get_cublas_allow_bf16_reduced_precision_reduction", asked_again},
      {"torch._C", "_get_cublas_allow_fp16_accumulation", asked_again},
      {"torch._C", "_get_cudnn_enabled", asked_again},
      {"torch._C", "_get_cudnn_benchmark", asked_again},
      {"torch._C", "_get_cudnn_deterministic", asked_again},
      {"torch._C", "_get_cudnn_allow_tf32", asked_again},
      {"torch._C", "_get_mkldnn_enabled", asked_again},
      {"torch._C", "_get_mkldnn_deterministic", asked_again},
      {"torch._C", "_get_nnpack_enabled", asked_again},
      {"torch._C", "_len_torch_function_stack", asked_again},
      {"torch._C", "_len_torch_dispatch_stack", asked_again},
      {"torch._C", "_cuda_getDeviceCount", asked_again},
      {"torch._C", "_accelerator_getAccelerator", asked_again},
      {"torch._C", "_get_qengine", asked_again},
      {"sys", "getrecursionlimit", asked_again},
      {"sys", "get_int_max_str_digits", asked_again},
      {"sys", "getdefaultencoding", asked_again},
      {"sys", "getfilesystemencoding", asked_again},
      {"sys", "getswitchinterval", asked_again},
      {"gc", "isenabled", asked_again},
      {"os", "getcwd", asked_again},
      {"os", "getpid", asked_again},
      {"os", "cpu_count", asked_again},
      {"_thread", "get_ident", asked_again},
  };
  return *rows;
}

}  // namespace firesteel::capture
