// The state around a call that decides what it computes: one packed guard for all of it.
#pragma once

#include <string>

#include "aot/trace.h"

namespace firesteel::guards {

struct Ambient {
  AmbientState modes;
  uint64_t included_keys = 0, excluded_keys = 0;  // the dispatcher's own view: transforms, inference mode, modes
  at::ScalarType default_dtype = at::kFloat;
  int threads = 0;
  bool deterministic = false;
  bool python_modes = false;  // a torch function or dispatch mode is on: nothing compiled may run

  static Ambient current();
  friend bool operator==(const Ambient&, const Ambient&) = default;
  // `grad mode is off, was on`; empty where nothing differs.
  std::string difference(const Ambient& now) const;
};

}  // namespace firesteel::guards
