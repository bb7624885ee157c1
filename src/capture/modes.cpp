// Reading and setting of what captured code may change of torch's state.
#include "capture/modes.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/overridden_calls.h"
#include "capture/transforms.h"

namespace firesteel::capture {
namespace autocast = at::autocast;
namespace {

// All that inference mode changes, as it was before.
struct InferenceBlock {
  c10::AutogradState autograd;
  bool tracks_views;
  c10::DispatchKeySet excluded;
};
thread_local std::vector<InferenceBlock> t_blocks;

void set_keys(bool tracks_views, c10::DispatchKeySet excluded) {
  constexpr c10::DispatchKeySet kViews(c10::DispatchKey::ADInplaceOrView);
  const c10::impl::LocalDispatchKeySet now = c10::impl::tls_local_dispatch_key_set();
  c10::impl::PODLocalDispatchKeySet wanted{};
  wanted.set_included(tracks_views ? now.included_ | kViews : now.included_ - kViews);
  wanted.set_excluded((now.excluded_ - c10::autograd_dispatch_keyset) | excluded);
  c10::impl::_force_tls_local_dispatch_key_set(wanted);
}

void close_blocks(size_t left) {
  if (t_blocks.size() <= left) return;
  const InferenceBlock before = t_blocks[left];
  t_blocks.resize(left, before);
  c10::AutogradState::set_tls_state(before.autograd);
  set_keys(before.tracks_views, before.excluded);
}

}  // namespace

void enter_inference_mode(bool enabled) {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  t_blocks.push_back({c10::AutogradState::get_tls_state(), keys.included_.has(c10::DispatchKey::ADInplaceOrView),
                      keys.excluded_ & c10::autograd_dispatch_keyset});
  c10::AutogradState::set_tls_state(c10::AutogradState(/*grad_mode=*/!enabled, /*inference_mode=*/enabled,
                                                       /*fw_grad_mode=*/!enabled,
                                                       /*multithreading_enabled=*/!enabled));
  set_keys(!enabled, enabled ? c10::autograd_dispatch_keyset : c10::DispatchKeySet());
}

void leave_inference_mode() {
  if (!t_blocks.empty()) close_blocks(t_blocks.size() - 1);
}

uint8_t torch_function_state() { return static_cast<uint8_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()); }

void set_torch_function_state(uint8_t state) {
  at::impl::PythonTorchFunctionTLS::set_disabled_state(static_cast<at::impl::TorchFunctionDisabledState>(state));
}

TorchModes TorchModes::current() {
  TorchModes modes;
  modes.ambient = AmbientState::current();
  modes.cache = autocast::is_autocast_cache_enabled();
  modes.nesting = autocast::increment_nesting() - 1;
  autocast::decrement_nesting();
  modes.default_dtype = c10::get_default_dtype_as_scalartype();
  modes.attention = guards::AttentionChoice::current();
  modes.deterministic = at::globalContext().deterministicAlgorithms();
  modes.only_warns = at::globalContext().deterministicAlgorithmsWarnOnly();
  modes.torch_functions = torch_function_state();
  if (const auto& refused = at::SavedTensorDefaultHooks::get_disabled_error_message()) modes.hooks_refused = *refused;
  modes.inference_blocks = t_blocks.size();
  modes.transforms = guards::open_transforms();
  modes.function_modes = open_function_modes();
  modes.dual_level = is_dual_level_open();
  modes.forward_grad = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  modes.breaks = guards::break_policy();
  return modes;
}

void TorchModes::apply() const {
  if (*this == current()) return;
  if (!dual_level && is_dual_level_open()) close_dual_level();
  close_transforms(transforms);
  close_blocks(inference_blocks);
  close_function_modes(function_modes);
  c10::AutogradState::get_tls_state().set_fw_grad_mode(forward_grad);
  guards::break_policy() = breaks;
  if (default_dtype != c10::get_default_dtype_as_scalartype())
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(default_dtype));
  attention.apply();
  at::globalContext().setDeterministicAlgorithms(deterministic, only_warns);
  set_torch_function_state(torch_functions);
  if (hooks_refused.empty())
    at::SavedTensorDefaultHooks::enable();
  else
    at::SavedTensorDefaultHooks::disable(hooks_refused);
  c10::GradMode::set_enabled(ambient.grad_mode);
  autocast::set_autocast_enabled(at::kCPU, ambient.autocast_cpu);
  autocast::set_autocast_enabled(at::kCUDA, ambient.autocast_cuda);
  autocast::set_autocast_dtype(at::kCPU, ambient.autocast_cpu_dtype);
  autocast::set_autocast_dtype(at::kCUDA, ambient.autocast_cuda_dtype);
  autocast::set_autocast_cache_enabled(cache);
  for (int now = autocast::increment_nesting() - 1; now != nesting - 1;) {
    now = now < nesting - 1 ? autocast::increment_nesting() - 1 : autocast::decrement_nesting() - 1;
  }
}

}  // namespace firesteel::capture
