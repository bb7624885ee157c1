// LLVM's ORC: compiles a kernel, or takes its code from disk, and links it into the process.
#pragma once

#include <string>

#include "codegen/cpu/target.h"
#include "codegen/kernel_compiler.h"

namespace firesteel::cpu {

enum class MadeBy { Compiler, Cache };

// Null where it could not be made; `why` then says so. Not to be called by two threads at once.
KernelFunction make_kernel(const LoopKernel& kernel, Target target, MadeBy& by, std::string& why);

}  // namespace firesteel::cpu
