// Reading and setting of torch's thread-local state.
#include "capture/modes.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

namespace firesteel::capture {
namespace autocast = at::autocast;

TorchModes TorchModes::current() {
  TorchModes modes;
  modes.ambient = AmbientState::current();
  modes.cache = autocast::is_autocast_cache_enabled();
  modes.nesting = autocast::increment_nesting() - 1;
  autocast::decrement_nesting();
  modes.breaks = guards::break_policy();
  return modes;
}

void TorchModes::apply() const {
  if (*this == current()) return;
  guards::break_policy() = breaks;
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
