// Operators that need another form while tracing: hidden writes, custom operators that write, checks that read data.
#pragma once

#include "aot/op_plan.h"

namespace firesteel {

// Gives a custom operator that writes to its arguments a functional form (it runs on copies, which then replace the
// originals), unless it has one. Cheap after the first call for an operator.
void functionalize_custom_op(const OpPlan& plan);

}  // namespace firesteel
