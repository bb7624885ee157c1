// LLVM's ORC: compiles a batch of kernels as one module and links it into the process.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/target.h"
#include "codegen/kernel_compiler.h"

namespace firesteel::cpu {

// Null for all where the batch could not be compiled; `why` then says so. Not to be called by two threads at once.
std::vector<KernelFunction> compile_batch(std::span<const LoopKernel* const> kernels, Target target, std::string& why);

}  // namespace firesteel::cpu
