// One loop kernel as one LLVM function of vector code.
#pragma once

#include <string>

#include <llvm/IR/Module.h>

#include "codegen/cpu/target.h"
#include "fuse/loop_ir.h"

namespace firesteel::cpu {

// Adds `void name(ptr buffers, i64 begin, i64 end)`.
void emit_kernel(const LoopKernel& kernel, const std::string& name, Target target, llvm::Module& module);

}  // namespace firesteel::cpu
