// Collects the ambient state and says in words what changed.
#include "guards/ambient.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <fmt/format.h>

#include "python/errors.h"

namespace firesteel::guards {
namespace {

thread_local BreakPolicy t_break_policy = BreakPolicy::Unsaid;
uint64_t g_controls = 0;  // guarded by the GIL

using python::PyRef;

// What a mode of torch's functions is, as a guard compares it: the device that it gives to factories, or its class.
std::string kind_of_mode(int64_t place) {
  static PyObject* const at =
      python::checked(
          PyObject_GetAttrString(python::checked(PyImport_ImportModule("torch._C")).get(), "_get_function_stack_at"))
          .release();
  PyRef mode = python::checked(PyObject_CallFunction(at, "L", static_cast<long long>(place)));
  PyRef module = PyRef::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), "torch.utils._device"));
  PyRef type = module ? python::attribute(module.get(), "DeviceContext") : PyRef();
  PyTypeObject* own = Py_TYPE(mode.get());
  if (reinterpret_cast<PyObject*>(own) != type.get())
    return fmt::format("{} at {}", own->tp_name, static_cast<const void*>(own));
  PyRef device = python::attribute(mode.get(), "device");
  PyRef text = device ? PyRef::steal(PyObject_Str(device.get())) : PyRef();
  if (!text) PyErr_Clear();
  return std::string(python::text_of(text.get()));
}

}  // namespace

BreakPolicy& break_policy() { return t_break_policy; }
void change_controls() { ++g_controls; }
uint64_t controls_version() { return g_controls; }

size_t open_transforms() {
  if (!c10::impl::tls_local_dispatch_key_set().included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
    return 0;
  // Torch's header for it needs a library that torch does not bring along.
  static PyObject* level = [] {
    python::PyRef module = python::checked(PyImport_ImportModule("torch._C._functorch"));
    return python::checked(PyObject_GetAttrString(module.get(), "maybe_current_level")).release();
  }();
  python::PyRef found = python::checked(PyObject_CallNoArgs(level));
  return found.get() == Py_None ? 0 : PyLong_AsSize_t(found.get());
}

Ambient Ambient::current() {
  Ambient state;
  state.modes = AmbientState::current();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  state.included_keys = keys.included_.raw_repr();
  state.excluded_keys = keys.excluded_.raw_repr();
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  state.attention = AttentionChoice::current();
  if (const auto& refused = at::SavedTensorDefaultHooks::get_disabled_error_message()) state.hooks_refused = *refused;
  state.threads = at::get_num_threads();
  state.transforms = open_transforms();
  state.forward_grad = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  state.deterministic = at::globalContext().deterministicAlgorithms();
  state.only_warns = at::globalContext().deterministicAlgorithmsWarnOnly();
  state.python_modes = c10::impl::TorchDispatchModeTLS::any_modes_set();
  for (int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) state.devices += kind_of_mode(i) + ";";
  state.torch_functions = static_cast<uint8_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state());
  state.breaks = t_break_policy;
  state.controls = g_controls;
  return state;
}

std::string Ambient::difference(const Ambient& now) const {
  const auto on = [](bool value) { return value ? "on" : "off"; };
  const auto switched = [&](const char* what, bool is, bool was) {
    return fmt::format("{} is {}, was {}", what, on(is), on(was));
  };
  if (now.modes.grad_mode != modes.grad_mode) return switched("grad mode", now.modes.grad_mode, modes.grad_mode);
  if (now.modes.inference_mode != modes.inference_mode) {
    return switched("inference mode", now.modes.inference_mode, modes.inference_mode);
  }
  if (now.modes != modes) return "autocast is not as it was";
  if (now.default_dtype != default_dtype) {
    return fmt::format("the default dtype is {}, was {}", c10::toString(now.default_dtype),
                       c10::toString(default_dtype));
  }
  if (now.attention != attention) return "torch chooses among other implementations of attention";
  if (now.hooks_refused != hooks_refused) return "hooks for saved tensors are refused in another way";
  if (now.transforms != transforms)
    return fmt::format("there are {} transforms of torch.func around it, were {}", now.transforms, transforms);
  if (now.forward_grad != forward_grad) return switched("forward-mode differentiation", now.forward_grad, forward_grad);
  if (now.threads != threads) return fmt::format("torch uses {} threads, used {}", now.threads, threads);
  if (now.deterministic != deterministic) return switched("deterministic mode", now.deterministic, deterministic);
  if (now.only_warns != only_warns) return switched("deterministic mode that only warns", now.only_warns, only_warns);
  if (now.torch_functions != torch_functions) return "__torch_function__ is switched off or on";
  if (now.devices != devices)
    return fmt::format("the modes of torch's functions are `{}`, were `{}`", now.devices, devices);
  if (now.python_modes != python_modes) return switched("a dispatch mode", now.python_modes, python_modes);
  if (now.breaks != breaks) return "error_on_graph_break() says something else";
  if (now.controls != controls) return "the program has said something new about what may be in a graph";
  if (now != *this) return "the dispatcher's thread-local state is not as it was";
  return {};
}

}  // namespace firesteel::guards
