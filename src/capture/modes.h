// The thread-local state that captured code may change: torch's grad mode and autocast, our error_on_graph_break().
#pragma once

#include "aot/trace.h"
#include "guards/ambient.h"

namespace firesteel::capture {

struct TorchModes {
  AmbientState ambient;
  bool cache = true;  // of autocast
  int nesting = 0;    // of autocast blocks
  guards::BreakPolicy breaks = guards::BreakPolicy::Unsaid;

  static TorchModes current();
  void apply() const;
  friend bool operator==(const TorchModes&, const TorchModes&) = default;
};

}  // namespace firesteel::capture
