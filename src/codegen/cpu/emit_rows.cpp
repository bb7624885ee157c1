// Chooses the direction that the plan says.
#include "codegen/cpu/emit_rows.h"

#include "codegen/cpu/row_body.h"

namespace firesteel::cpu {

void emit_row_kernel(const LoopKernel& kernel, const std::string& name, Target target, llvm::Module& module) {
  const RowPlan plan(kernel);
  (plan.across ? emit_across : emit_along)(kernel, plan, name, target, module);
}

}  // namespace firesteel::cpu
