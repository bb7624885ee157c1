// The state around a call that decides what it computes: one packed guard for all of it.
#pragma once

#include <string>

#include "aot/trace.h"
#include "guards/attention.h"

namespace firesteel::guards {

// What error_on_graph_break() says for the code that runs now, on this thread.
enum class BreakPolicy : uint8_t { Unsaid, Allowed, Error };
BreakPolicy& break_policy();

// The program has said something new about a callable: what was compiled before may not hold.
void change_controls();
uint64_t controls_version();

// The levels of torch.func's transforms that are open on this thread.
size_t open_transforms();

struct Ambient {
  AmbientState modes;
  uint64_t included_keys = 0, excluded_keys = 0;  // the dispatcher's own view: transforms, inference mode, modes
  at::ScalarType default_dtype = at::kFloat;
  AttentionChoice attention;
  std::string hooks_refused;  // why torch takes no hooks for saved tensors; empty: it does
  int threads = 0;
  size_t transforms = 0;  // of torch.func around the call
  bool forward_grad = true;
  bool deterministic = false, only_warns = false;
  bool python_modes = false;  // a dispatch mode is on: nothing compiled may run
  std::string devices;        // of the modes that torch.device and set_default_device() set, and the classes of others
  uint8_t torch_functions =
      0;  // whether __torch_function__ of subclasses and modes is asked: torch's own number for it
  BreakPolicy breaks = BreakPolicy::Unsaid;
  uint64_t controls = 0;  // how often the program has changed what it says about callables

  static Ambient current();
  friend bool operator==(const Ambient&, const Ambient&) = default;
  // `grad mode is off, was on`; empty where nothing differs.
  std::string difference(const Ambient& now) const;
};

}  // namespace firesteel::guards
