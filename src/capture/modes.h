// The state of torch that captured code may change: grad mode, inference mode, autocast, the default dtype, the choice
// of attention, deterministic mode, __torch_function__, hooks for saved tensors, transforms; and our
// error_on_graph_break().
#pragma once

#include "aot/trace.h"
#include "guards/ambient.h"

namespace firesteel::capture {

struct TorchModes {
  AmbientState ambient;
  bool cache = true;  // of autocast
  int nesting = 0;    // of autocast blocks
  at::ScalarType default_dtype = at::kFloat;
  guards::AttentionChoice attention;
  bool deterministic = false, only_warns = false;
  uint8_t torch_functions = 0;  // torch's own number for whether they are asked
  std::string hooks_refused;    // of saved tensors
  size_t inference_blocks = 0;  // that enter_inference_mode() has opened
  size_t transforms = 0;        // levels of torch.func's transforms that are open
  size_t function_modes = 0;    // of torch.overrides that are on
  bool dual_level = false;      // of forward-mode differentiation
  bool forward_grad = true;     // which is on
  guards::BreakPolicy breaks = guards::BreakPolicy::Unsaid;

  static TorchModes current();
  // Blocks of inference mode, levels of transforms and function modes are only closed, never opened again.
  void apply() const;
  friend bool operator==(const TorchModes&, const TorchModes&) = default;
};

// `with torch.inference_mode(enabled)` as two calls. Unlike c10::InferenceMode, what they undo is found on the thread
// and not in an object that could die at the wrong time.
void enter_inference_mode(bool enabled);
void leave_inference_mode();

// `with torch._C.DisableTorchFunction()` as two calls: whether __torch_function__ is asked, in torch's own numbers.
uint8_t torch_function_state();
void set_torch_function_state(uint8_t state);

}  // namespace firesteel::capture
