// A program's run that somebody watches: each instruction under its name, and timed where costs are asked for.
#include <algorithm>
#include <chrono>

#include "runtime/program.h"
#include "runtime/watched_runs.h"

namespace firesteel {
namespace {

const void* memory_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// An expanded tensor has more elements than memory.
uint64_t bytes_of(const at::Tensor& tensor) {
  return memory_of(tensor) ? std::min<uint64_t>(tensor.nbytes(), tensor.storage().nbytes()) : 0;
}

}  // namespace

void Program::run_watched(std::vector<at::Tensor>& slots, torch::jit::Stack& stack, Run& run) const {
  const bool measures = is_profiling();
  for (size_t i = 0; i < instructions_.size(); ++i) {
    const WatchedRun shown(instructions_[i].name);
    if (measures) {
      run_measured(i, slots, stack, run);
    } else {
      execute(instructions_[i], slots, stack, run);
    }
  }
}

void Program::run_measured(size_t index, std::vector<at::Tensor>& slots, torch::jit::Stack& stack, Run& run) const {
  using Clock = std::chrono::steady_clock;
  const Instruction& instruction = instructions_[index];
  RunCost cost;
  cost.runs = 1;
  std::vector<const void*> given;
  const auto give = [&](int32_t slot) {
    if (slot == kNoSlot || !memory_of(slots[slot])) return;
    given.push_back(memory_of(slots[slot]));
    cost.bytes_read += bytes_of(slots[slot]);
  };
  for (const Argument& argument : instruction.arguments) {
    give(argument.slot);
    for (int32_t slot : argument.slots) give(slot);
  }
  if (instruction.op && op_facts(*instruction.op).is_view) cost.bytes_read = 0;
  const Clock::time_point began = Clock::now();
  execute(instruction, slots, stack, run);
  cost.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  for (int32_t slot : instruction.results) {
    if (slot == kNoSlot || !memory_of(slots[slot])) continue;
    if (std::find(given.begin(), given.end(), memory_of(slots[slot])) == given.end())
      cost.bytes_made += bytes_of(slots[slot]);
  }
  costs_->add(index, cost);
}

ProgramCosts Program::costs() const {
  ProgramCosts costs;
  for (size_t i = 0; i < instructions_.size(); ++i) {
    std::vector<RunCost>& rows = instructions_[i].kernel ? costs.kernels : costs.nodes;
    if (rows.size() <= instructions_[i].origin) rows.resize(instructions_[i].origin + 1);
    rows[instructions_[i].origin] = costs_->at(i);
  }
  return costs;
}

}  // namespace firesteel
