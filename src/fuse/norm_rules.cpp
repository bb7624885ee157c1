// The table of operators that normalise rows, and their gradients. All is computed in the math type of the numbers they
// take, and rounded at the end, as ATen's kernels do.
#include <cmath>

#include "fuse/row_rules.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

using B = NodeBuilder;

ExprId times(B& b, ExprId x, ExprId y) { return b.op(LoopOp::Mul, x, y); }
ExprId minus(B& b, ExprId x, ExprId y) { return b.op(LoopOp::Sub, x, y); }
ExprId sum(B& b, ExprId x) { return b.op(LoopOp::RowSum, x); }

// Unrounded, whatever its own type: parameters may be wider than the input.
ExprId plain(B& b, size_t index) { return b.kernel().cast(b.raw(index), computed_as(b.out())); }

struct Exponentials {
  ExprId shifted, sum;  // x less the largest of its row; Σ e^shifted
  ExprId exponential;
};
Exponentials exponentials(B& b) {
  ExprId x = plain(b, 0), shifted = minus(b, x, b.op(LoopOp::RowMax, x)), e = b.op(LoopOp::Exp, shifted);
  return {shifted, sum(b, e), e};
}

RowResults softmax(B& b, const Dim&) {
  if (!is_float(b.out())) return std::nullopt;
  const Exponentials row = exponentials(b);
  return {{times(b, row.exponential, b.op(LoopOp::Div, b.constant(1), row.sum))}};
}

// A row that is masked out, of nothing but -inf, gives zeros.
RowResults safe_softmax(B& b, const Dim&) {
  if (!is_float(b.out()) || b.has(2)) return std::nullopt;
  const Exponentials row = exponentials(b);
  ExprId factor = b.op(LoopOp::Div, b.constant(1), row.sum);
  ExprId masked = b.op(LoopOp::Eq, b.op(LoopOp::RowMax, plain(b, 0)), b.constant(-INFINITY));
  return {{b.op(LoopOp::Select, masked, b.constant(0), times(b, row.exponential, factor))}};
}

RowResults log_softmax(B& b, const Dim&) {
  if (!is_float(b.out())) return std::nullopt;
  const Exponentials row = exponentials(b);
  return {{minus(b, row.shifted, b.op(LoopOp::Log, row.sum))}};
}

RowResults softmax_backward(B& b, const Dim&) {
  ExprId grad = plain(b, 0), y = plain(b, 1);
  return {{times(b, y, minus(b, grad, sum(b, times(b, grad, y))))}};
}

RowResults log_softmax_backward(B& b, const Dim&) {
  ExprId grad = plain(b, 0), y = plain(b, 1);
  return {{minus(b, grad, times(b, b.op(LoopOp::Exp, y), sum(b, grad)))}};
}

// The last dimensions, as many as `normalized_shape` has.
std::optional<std::vector<bool>> normalized_dims(const Node& node, size_t rank) {
  const Arg* shape = find_arg(node, "normalized_shape");
  if (!shape || shape->kind != Arg::Kind::Const || !shape->constant.isIntList()) return std::nullopt;
  const size_t count = shape->constant.toIntVector().size();
  std::vector<bool> reduced(rank, false);
  for (size_t d = 0; d < rank; ++d) reduced[d] = d + count >= rank;
  return reduced;
}

// x (0), shape (1), weight (2), bias (3), eps (4): the result, mean and 1/σ of each row.
RowResults layer_norm(B& b, const Dim& length) {
  if (!is_float(b.out())) return std::nullopt;
  const ExprId n = b.size(length);
  ExprId x = plain(b, 0), mean = b.op(LoopOp::Div, sum(b, x), n), rest = minus(b, x, mean);
  ExprId variance = b.op(LoopOp::Div, sum(b, times(b, rest, rest)), n);
  ExprId eps = b.constant(b.scalar(4).toDouble());
  ExprId rstd = b.op(LoopOp::Div, b.constant(1), b.op(LoopOp::Sqrt, b.op(LoopOp::Add, variance, eps)));
  ExprId result = times(b, rest, rstd);
  if (b.has(2)) result = times(b, result, plain(b, 2));
  if (b.has(3)) result = b.op(LoopOp::Add, result, plain(b, 3));
  return {{result, mean, rstd}};
}

bool wants(const Node& node, size_t result) {
  const Arg* mask = find_arg(node, "output_mask");
  return mask && mask->kind == Arg::Kind::Const && mask->constant.isBoolList() &&
         mask->constant.toBoolList().get(result);
}

// The input's gradient runs along rows, those of weight and bias across them: one or the other.
std::optional<std::vector<bool>> layer_norm_backward_dims(const Node& node, size_t rank) {
  std::optional<std::vector<bool>> dims = normalized_dims(node, rank);
  if (!dims || wants(node, 0)) return wants(node, 1) || wants(node, 2) ? std::nullopt : dims;
  dims->flip();
  return dims;
}

// grad (0), x (1), shape (2), mean (3), 1/σ (4), weight (5), bias (6), mask (7)
RowResults layer_norm_backward(B& b, const Dim& length) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId grad = plain(b, 0), rstd = plain(b, 4), normal = times(b, minus(b, plain(b, 1), plain(b, 3)), rstd);
  if (!wants(b.node(), 0)) return {{kNoExpr, sum(b, times(b, grad, normal)), sum(b, grad)}};
  if (b.has(5)) grad = times(b, grad, plain(b, 5));
  const ExprId n = b.size(length);
  ExprId shift = b.op(LoopOp::Div, sum(b, grad), n), slope = b.op(LoopOp::Div, sum(b, times(b, grad, normal)), n);
  return {{times(b, rstd, minus(b, minus(b, grad, shift), times(b, normal, slope))), kNoExpr, kNoExpr}};
}

}  // namespace

const RowRules& norm_rules() {
  static const RowRules rules = {
      {"aten._softmax", {0, dims_by_name, softmax}},
      {"aten._safe_softmax", {0, dims_by_name, safe_softmax}},
      {"aten._log_softmax", {0, dims_by_name, log_softmax}},
      {"aten._softmax_backward_data", {1, dims_by_name, softmax_backward}},
      {"aten._log_softmax_backward_data", {1, dims_by_name, log_softmax_backward}},
      {"aten.native_layer_norm", {0, normalized_dims, layer_norm}},
      {"aten.native_layer_norm_backward", {1, layer_norm_backward_dims, layer_norm_backward}},
  };
  return rules;
}

}  // namespace firesteel
