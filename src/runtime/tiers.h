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

class TieredProgram;

// Programs for single sizes of a graph that leaves sizes open: those that are met often get native code of their own,
// which is faster by what a compiler makes of numbers.
class SizedPrograms {
 public:
  SizedPrograms(Graph graph, NativeCode native);
  ~SizedPrograms();
  // Null where these sizes have none, or not yet. Any number of threads may ask.
  std::shared_ptr<const TieredProgram> find(std::span<const int64_t> symbols) const;

 private:
  struct Entry;
  Graph graph_;
  NativeCode native_;
  mutable std::mutex mutex_;
  mutable std::vector<Entry> entries_;
};

class TieredProgram {
 public:
  // `freeze`: native code takes weights as prepared once. Not where sizes are open.
  TieredProgram(const Graph& graph, NativeCode native, bool freeze = false);

  // Runs the fastest that there is by now.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, std::span<const int64_t> symbols) const;
  const Program& aten() const { return aten_; }
  // Native code, null where there is none by now. Any number of threads may ask.
  const Program* native() const {
    return state_.load(std::memory_order_acquire) == State::Native ? &*native_ : native_by_now();
  }
  Tier tier() const { return state_.load(std::memory_order_acquire); }
  // Of the program that the tier names; empty while its code is awaited. `before`: by ATen, until code was there.
  ProgramCosts costs() const;
  RunCost cost_before() const;
  // What native code was made of where it takes prepared weights; null: the graph itself.
  const Graph* frozen_graph() const;

 private:
  using State = Tier;
  const Program* native_by_now() const;

  Program aten_;
  mutable std::optional<Program> native_;         // for all sizes that the graph leaves open
  mutable std::shared_ptr<const KernelJob> job_;  // dropped once it is done
  mutable std::mutex mutex_;                      // guards the switch
  mutable std::atomic<State> state_ = State::Aten;
  std::unique_ptr<SizedPrograms> sized_;  // of a graph that leaves sizes open
  struct Frozen;
  std::shared_ptr<Frozen> frozen_;  // where native code takes prepared weights
};

}  // namespace firesteel
