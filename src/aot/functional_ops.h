// Operators that need another form while tracing: hidden writes, custom operators that write, checks that read data.
#pragma once

#include "aot/op_plan.h"
#include "firesteel/export.h"

namespace firesteel {

// Gives a custom operator that writes to its arguments a functional form (it runs on copies, which then replace the
// originals), unless it has one. Cheap after the first call for an operator.
void functionalize_custom_op(const OpPlan& plan);

// Takes these forms away again, until an operator is traced next: PyTorch's own compiler finds a form by itself for
// operators that have none.
FIRESTEEL_API void forget_custom_forms();

}  // namespace firesteel
