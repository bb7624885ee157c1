// When a compiled function runs in native code.
#pragma once

#include "firesteel/export.h"

namespace firesteel {

enum class NativeCode {
  None,       // ATen runs everything
  WhenReady,  // ATen runs the first calls, while another thread compiles
  AtOnce,     // the first call waits: results do not change their last bits between calls
};

// For a user who did, or did not, ask to wait. FIRESTEEL_WAIT=1 and torch's deterministic mode ask, too.
FIRESTEEL_API NativeCode native_code(bool wait);

// Raises for a FIRESTEEL_CPU or FIRESTEEL_MATMUL that means nothing: when a function is compiled, not when it runs.
FIRESTEEL_API void check_native_settings();

}  // namespace firesteel
