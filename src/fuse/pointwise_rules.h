// ATen's pointwise operators as loop expressions: the fuser's one table of operators.
#pragma once

#include <optional>

#include "fuse/loop_ir.h"
#include "graph/graph.h"

namespace firesteel {

struct Lookup;
struct Piece;
struct WindowPlace;

// What rules build on: expressions at the points of the node's index space.
class Operands {
 public:
  virtual ~Operands() = default;
  virtual ExprId value(const Value* value) = 0;  // of a tensor argument, in the element type that it has in memory
  virtual ExprId index(size_t dim) = 0;          // an i64
  // Of the node's table, `further` (an i64) elements beyond where the point lies along those dimensions that it shares.
  virtual ExprId look_up(const Lookup& lookup, ExprId further) = 0;
  // Of a tensor that lies somewhere in the index space, where the point is `inside` it; 0 elsewhere.
  virtual ExprId piece(const Piece& piece, ExprId inside) = 0;
  // Likewise of one place of a window; kNoExpr: inside for all points.
  virtual ExprId window(const WindowPlace& place, ExprId inside) = 0;
  // Of a picture at that row and column (both i32), along its other dimensions where the point lies. The column stays
  // inside the picture wherever it is asked, and rises by 0 or 1 with the point's.
  virtual ExprId pixel(const Value* picture, ExprId row, ExprId column) = 0;
};

// Stands in where only the question counts whether a rule applies.
class NoOperands final : public Operands {
 public:
  explicit NoOperands(LoopKernel& kernel) : kernel_(kernel) {}
  ExprId value(const Value* value) override;
  ExprId index(size_t) override { return kernel_.index({}); }
  ExprId look_up(const Lookup& lookup, ExprId further) override;
  ExprId piece(const Piece& piece, ExprId inside) override;
  ExprId window(const WindowPlace& place, ExprId inside) override;
  ExprId pixel(const Value* picture, ExprId row, ExprId column) override;

 private:
  LoopKernel& kernel_;
};

// The node's result in its recorded dtype, rounded as eager rounds it. None where there is no rule, or where eager's
// result could not be matched (a dtype, a rounding, an argument): the operator then stays an ATen call.
std::optional<ExprId> lower_pointwise(const Node& node, LoopKernel& kernel, Operands& operands);

// The same question, without a kernel at hand.
bool is_pointwise(const Node& node);

}  // namespace firesteel
