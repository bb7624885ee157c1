// Kernels with reductions as LLVM functions of vector code.
#pragma once

#include <string>

#include <llvm/IR/Module.h>

#include "codegen/cpu/target.h"
#include "fuse/loop_ir.h"

namespace firesteel::cpu {

// Adds `void name(ptr buffers, i64 begin, i64 end)` over rows. Where the kernel's plan has chunks, it is over chunks,
// one more buffer takes what each makes (RowPlan::chunk_slots), and the range [-1, 0) finishes the rows.
void emit_row_kernel(const LoopKernel& kernel, const std::string& name, Target target, llvm::Module& module);

}  // namespace firesteel::cpu
