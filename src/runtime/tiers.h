// A graph that runs at once and gets faster: ATen's operators first, native code when it has been compiled.
#pragma once

#include <atomic>
#include <mutex>

#include "codegen/background.h"
#include "firesteel/native_code.h"
#include "runtime/program.h"

namespace firesteel {

// FIRESTEEL_SMALLEST_KERNEL=1 gives every operator that can have one a kernel, alone as it may be: for tests.
FuseOptions fuse_options();
// Puts a graph into the form that is fused: what runs faster in other operators gets these. True where it changed.
bool prepare_for_native(Graph& graph);

enum class Tier : uint8_t { Aten, Waiting, Native };

class TieredProgram {
 public:
  TieredProgram(const Graph& graph, NativeCode native);

  const Program& aten() const { return aten_; }
  // The fastest there is by now. Any number of threads may ask.
  const Program& best() const {
    return state_.load(std::memory_order_acquire) == State::Native ? *native_ : best_by_now();
  }
  Tier tier() const { return state_.load(std::memory_order_acquire); }

 private:
  using State = Tier;
  const Program& best_by_now() const;

  Program aten_;
  mutable std::optional<Program> native_;
  mutable std::shared_ptr<const KernelJob> job_;  // dropped once it is done
  mutable std::mutex mutex_;                      // guards the switch
  mutable std::atomic<State> state_ = State::Aten;
};

}  // namespace firesteel
