// Finds an operator's result shapes: our rule, torch's C++ kernel, a Python kernel, or the real kernel on zeros.
#pragma once

#include "aot/op_plan.h"
#include "firesteel/export.h"

namespace firesteel {

// `on_meta`: the arguments with meta tensors in place of fakes; `args`: as they were called, for the last resort.
// Runs with all keys above Meta hidden (OutsideTrace).
std::vector<c10::IValue> infer_shapes(const OpPlan& plan, const std::vector<c10::IValue>& on_meta,
                                      c10::ArrayRef<c10::IValue> args, c10::Device device);

// Whoever follows the program's Python steps aside while kernels run that only tell shapes: these may be Python, and
// are none of the program's. `end` gets what `begin` gave.
struct StepAside {
  void* (*begin)() = nullptr;
  void (*end)(void*) = nullptr;
};
FIRESTEEL_API void set_step_aside(StepAside step);

// While a kernel made of other operators runs on meta tensors, those operators come back here too (through the entry
// key) instead of reaching Python's shape kernels. False: the call has nothing to do with that.
bool is_inferring_shapes();
bool infer_inner_call(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace firesteel
