// What compiled functions have done so far, for tests and for people who wonder. Guarded by the GIL.
#pragma once

#include <array>
#include <cstdint>

#include "capture/break_reasons.h"

namespace firesteel::capture {

struct Counters {
  static constexpr size_t kReasons = 0
#define X(name, id, what, why, next) +1
      FIRESTEEL_BREAK_REASONS(X)
#undef X
      ;
  uint64_t captured = 0;                       // pieces of code that were compiled
  uint64_t hits = 0;                           // calls that were served, whole or in pieces
  uint64_t misses = 0;                         // calls and pieces that had to be captured
  std::array<uint64_t, kReasons> breaks{};     // instructions between two pieces that ran eagerly, by reason
  std::array<uint64_t, kReasons> fallbacks{};  // frames that ran eagerly to their end, by reason
};
inline Counters& counters() {
  static Counters all;
  return all;
}

}  // namespace firesteel::capture
