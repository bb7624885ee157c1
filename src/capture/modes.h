// Torch's thread-local state that captured code may change: grad mode and autocast.
#pragma once

#include "aot/trace.h"

namespace firesteel::capture {

struct TorchModes {
  AmbientState ambient;
  bool cache = true;  // of autocast
  int nesting = 0;    // of autocast blocks

  static TorchModes current();
  void apply() const;
  friend bool operator==(const TorchModes&, const TorchModes&) = default;
};

}  // namespace firesteel::capture
