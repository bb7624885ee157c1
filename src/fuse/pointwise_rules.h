// ATen's pointwise operators as loop expressions: the fuser's one table of operators.
#pragma once

#include <functional>
#include <optional>

#include "fuse/loop_ir.h"
#include "graph/graph.h"

namespace firesteel {

// Gives the expression of a tensor argument, in the element type that the value has in memory.
using OperandExpr = std::function<ExprId(const Value*)>;

// The node's result in its recorded dtype, rounded as eager rounds it. None where there is no rule, or where eager's
// result could not be matched (a dtype, a rounding, an argument): the operator then stays an ATen call.
std::optional<ExprId> lower_pointwise(const Node& node, LoopKernel& kernel, const OperandExpr& operand);

// The same question, without a kernel at hand.
bool is_pointwise(const Node& node);

}  // namespace firesteel
