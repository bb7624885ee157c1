// Reads a node's arguments for the rules of pointwise operators: casts, constants and the final rounding.
#pragma once

#include <optional>
#include <string>

#include "fuse/operand.h"
#include "fuse/pointwise_rules.h"

namespace firesteel {

// Numbers inside a formula are of the `math` type: that of the result, or f32 where the result is a half-width float.
class NodeBuilder {
 public:
  NodeBuilder(const Node& node, LoopKernel& kernel, Operands& operands);

  // Tensor results of known types on the CPU, and operands that are likewise.
  bool usable() const { return usable_; }
  Element out() const { return out_; }  // of the first result
  LoopKernel& kernel() { return kernel_; }

  ExprId raw(size_t index);                               // a tensor argument as it is in memory
  ExprId in(size_t index) { return in_as(index, out_); }  // converted as torch's type promotion does
  ExprId in_as(size_t index, Element type);               // likewise, to that type; then as its math type
  ExprId in_unrounded(size_t index);                 // as in(), but a single number is not rounded to a half-width type
  ExprId constant(double value);                     // of the math type
  ExprId size(const Dim& size);                      // likewise
  ExprId rounded_constant(const at::Scalar& value);  // as the result's type would hold it, in the math type

  bool has(size_t index) const { return node_.args[index].kind != Arg::Kind::None; }
  bool is_constant(size_t index) const { return node_.args[index].kind == Arg::Kind::Const; }
  bool is_bool(size_t index) const;             // a tensor of bools
  bool fits(size_t index, Element type) const;  // not a whole number beyond the range of an integer type
  at::Scalar scalar(size_t index) const;        // 1 where the node has no such argument: `alpha`
  std::string text(size_t index) const;
  // The type that torch's promotion compares the first two arguments in.
  std::optional<Element> common_type() const;

  ExprId op(LoopOp op, ExprId a, ExprId b = kNoExpr, ExprId c = kNoExpr) { return kernel_.op(op, a, b, c); }
  ExprId finish(ExprId result) { return kernel_.cast(result, out_); }
  ExprId finish(ExprId result, size_t index);  // likewise, of that result; kNoExpr where it is none
  const Node& node() const { return node_; }
  ExprId index(size_t dim) { return operands_.index(dim); }  // an i64
  int64_t integer(size_t index) const { return node_.args[index].constant.toInt(); }

 private:
  ExprId literal(const at::Scalar& value, Element type);

  const Node& node_;
  LoopKernel& kernel_;
  Operands& operands_;
  bool usable_ = false;
  Element out_ = Element::F32;
};

}  // namespace firesteel
