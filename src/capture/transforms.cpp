// The steps of torch.func's transforms: those that open and close a level, and those that wrap tensors in one.
#include "capture/transforms.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "guards/ambient.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using torch::autograd::ForwardADLevel;

std::string node_name(PyObject* callable) {
  PyRef name = python::attribute(callable, "__name__");
  return fmt::format("torch.func.{}", python::text_of(name.get()));
}

PyObject* level_function(const char* name) {
  PyRef module = python::checked(PyImport_ImportModule("torch._C._functorch"));
  return python::checked(PyObject_GetAttrString(module.get(), name)).release();
}

// Opens or closes a level, or changes what it allows.
PyRef effect(Capture& capture, PyObject* callable, CallArgs& args) {
  return capture.effect_call(callable, node_name(callable), args);
}

PyRef node(Capture& capture, PyObject* callable, CallArgs& args) {
  return capture.torch_call(callable, node_name(callable), args.tuple(), args.dict());
}

// What the open levels decide, and how they have wrapped a tensor.
PyRef answer(Capture& capture, PyObject* callable, CallArgs& args) {
  for (PyRef& value : args.values) value = capture.adopt(value);
  Suspended suspended(capture);
  return args.call(callable);
}

// Traces the function by PyTorch's own means.
PyRef leave(Capture& capture, PyObject* callable, CallArgs&) {
  PyRef name = python::attribute(callable, "__name__");
  capture.stop(BreakReason::Value, fmt::format("`{}` of torch.func is called", python::text_of(name.get())));
}

}  // namespace

const std::vector<ControlRule>& transform_rules() {
  constexpr const char* kSteps = "torch._functorch.predispatch";
  constexpr const char* kLevels = "torch._C._functorch";
  static const auto* rows = new std::vector<ControlRule>{
      {kSteps, "lazy_load_decompositions", effect},
      {kSteps, "_vmap_increment_nesting", effect},
      {kSteps, "_vmap_decrement_nesting", effect},
      {kSteps, "_jvp_increment_nesting", effect},
      {kSteps, "_jvp_decrement_nesting", effect},
      {kSteps, "_enter_dual_level", effect},
      {kSteps, "_exit_dual_level", effect},
      {kSteps, "_add_batch_dim", node},
      {kSteps, "_remove_batch_dim", node},
      {kSteps, "_make_dual", node},
      {kSteps, "_unpack_dual", node},
      {kSteps, "_unwrap_for_grad", node},
      {kLevels, "_grad_increment_nesting", effect},
      {kLevels, "_grad_decrement_nesting", effect},
      {kLevels, "_wrap_for_grad", node},
      {kLevels, "set_inplace_requires_grad_allowed", effect},
      {kLevels, "get_inplace_requires_grad_allowed", answer},
      {kLevels, "is_batchedtensor", answer},
      {kLevels, "is_gradtrackingtensor", answer},
      {kLevels, "is_functorch_wrapped_tensor", answer},
      {kLevels, "maybe_current_level", answer},
      {kLevels, "maybe_get_level", answer},
      {kLevels, "maybe_get_bdim", answer},
      {kLevels, "unwrap_if_dead", answer},
      {"torch._functorch.eager_transforms", "linearize", leave},
      {"torch._functorch.eager_transforms", "functionalize", leave},
      {"torch._C", "_is_fwd_grad_enabled", answer},
      {"torch._C", "_set_fwd_grad_enabled", effect},
  };
  return *rows;
}

at::Tensor without_transforms(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kWrapped({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  static PyObject* unwrap = level_function("get_unwrapped");
  at::Tensor inner = tensor;
  while (inner.key_set().has_any(kWrapped))
    inner = python::unpack(python::checked(PyObject_CallOneArg(unwrap, python::wrap(inner).get())).get());
  return inner;
}

void close_transforms(size_t left) {
  static PyObject* close = level_function("_grad_decrement_nesting");
  python::ErrorAside aside;
  while (guards::open_transforms() > left) {
    // It closes the level first, and then refuses one that another kind of transform has opened.
    if (!PyRef::steal(PyObject_CallNoArgs(close))) PyErr_Clear();
  }
}

bool is_dual_level_open() { return ForwardADLevel::try_get_by_idx(0) != nullptr; }

void close_dual_level() { ForwardADLevel::release_idx(0); }

}  // namespace firesteel::capture
