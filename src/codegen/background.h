// Kernels compiled on a thread of the process's own, which knows neither torch nor Python.
#pragma once

#include <atomic>
#include <memory>

#include "codegen/kernel_compiler.h"

namespace firesteel {

// Kernels on their way. Dropped before its turn, a job is never begun. A job that was under way when the process forked
// is carried on by whoever of the two still wants it.
class FIRESTEEL_API KernelJob {
 public:
  explicit KernelJob(std::vector<LoopKernel> kernels);

  // Whether all have been compiled, or have failed.
  bool done() const;
  // Once done: one answer a kernel, as of compile_kernels().
  const std::vector<KernelFunction>& functions() const { return functions_; }

 private:
  friend class Compiler;
  friend FIRESTEEL_API std::shared_ptr<const KernelJob> compile_in_background(std::vector<LoopKernel> kernels);
  void take_known();
  void compile_next();  // called by one thread at a time

  std::vector<LoopKernel> kernels_;
  std::vector<KernelFunction> functions_;
  std::atomic<bool> done_ = false;
};

// Jobs are taken in the order given; one whose kernels are all known is done at once.
FIRESTEEL_API std::shared_ptr<const KernelJob> compile_in_background(std::vector<LoopKernel> kernels);

// For tests: while held, no job is begun.
FIRESTEEL_API void hold_background_compiler(bool held);

}  // namespace firesteel
