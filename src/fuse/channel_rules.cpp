// The table of operators whose operands lie along other dimensions than the last: batch norm by channel, a loss by row.
#include <utility>

#include "fuse/row_rules.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

using B = NodeBuilder;

ExprId times(B& b, ExprId x, ExprId y) { return b.op(LoopOp::Mul, x, y); }
ExprId plus(B& b, ExprId x, ExprId y) { return b.op(LoopOp::Add, x, y); }
ExprId minus(B& b, ExprId x, ExprId y) { return b.op(LoopOp::Sub, x, y); }
ExprId over(B& b, ExprId x, ExprId y) { return b.op(LoopOp::Div, x, y); }
ExprId sum(B& b, ExprId x) { return b.op(LoopOp::RowSum, x); }
ExprId plain(B& b, size_t index) { return b.kernel().cast(b.raw(index), computed_as(b.out())); }

// Everything but the channels.
std::optional<std::vector<bool>> all_but_channels(const Node&, size_t rank) {
  if (rank < 2) return std::nullopt;
  std::vector<bool> reduced(rank, true);
  reduced[1] = false;
  return reduced;
}

bool is_true(B& b, std::string_view name) {
  const Arg* arg = find_arg(b.node(), name);
  return arg && arg->kind == Arg::Kind::Const && arg->constant.isBool() && arg->constant.toBool();
}

ExprId inverse_root(B& b, ExprId variance, double eps) {
  return over(b, b.constant(1), b.op(LoopOp::Sqrt, plus(b, variance, b.constant(eps))));
}

ExprId scaled(B& b, ExprId normal, size_t weight, size_t bias) {
  if (b.has(weight)) normal = times(b, normal, plain(b, weight));
  return b.has(bias) ? plus(b, normal, plain(b, bias)) : normal;
}

// x (0), weight (1), bias (2), running mean (3) and variance (4), training (5), momentum (6), eps (7): the result, mean
// and 1/σ of each channel, and the running ones moved on.
RowResults batch_norm(B& b, const Dim& length) {
  if (!is_float(b.out()) || !is_true(b, "training")) return std::nullopt;
  const ExprId n = b.size(length);
  ExprId x = plain(b, 0), mean = over(b, sum(b, x), n), rest = minus(b, x, mean);
  ExprId squares = sum(b, times(b, rest, rest));
  ExprId rstd = inverse_root(b, over(b, squares, n), b.scalar(7).toDouble());
  const double momentum = b.scalar(6).toDouble();
  auto moved = [&](size_t running, ExprId now) {
    return plus(b, times(b, plain(b, running), b.constant(1 - momentum)), times(b, now, b.constant(momentum)));
  };
  ExprId unbiased = over(b, squares, b.size(length + -1));
  return {{scaled(b, times(b, rest, rstd), 1, 2), mean, rstd, moved(3, mean), moved(4, unbiased)}};
}

// x (0), weight (1), bias (2), running mean (3) and variance (4), eps: the other results are empty.
template <size_t eps>
RowResults batch_norm_by_running(B& b, const Dim&) {
  if (!is_float(b.out()) || is_true(b, "training") || !b.has(3) || !b.has(4)) return std::nullopt;
  ExprId rstd = inverse_root(b, plain(b, 4), b.scalar(eps).toDouble());
  return {{scaled(b, times(b, minus(b, plain(b, 0), plain(b, 3)), rstd), 1, 2), kNoExpr, kNoExpr}};
}

// grad (0), x (1), weight (2), running mean (3) and variance (4), mean (5), 1/σ (6), train (7), eps (8), mask (9)
RowResults batch_norm_backward(B& b, const Dim& length) {
  if (!is_float(b.out()) || !is_true(b, "train") || !b.has(5) || !b.has(6)) return std::nullopt;
  const ExprId n = b.size(length);
  ExprId grad = plain(b, 0), rstd = plain(b, 6), normal = times(b, minus(b, plain(b, 1), plain(b, 5)), rstd);
  ExprId bias = sum(b, grad), weight = sum(b, times(b, grad, normal));
  ExprId slope = b.has(2) ? times(b, rstd, plain(b, 2)) : rstd;
  ExprId inside = minus(b, minus(b, grad, over(b, bias, n)), times(b, normal, over(b, weight, n)));
  RowResults results{{times(b, slope, inside), weight, bias}};
  for (size_t i = 0; i < 3; ++i) {
    if (!b.node().outputs[i]->type.is_tensor()) (*results)[i] = kNoExpr;
  }
  return results;
}

std::optional<std::vector<bool>> columns(const Node&, size_t rank) {
  return rank == 2 ? std::optional(std::vector{false, true}) : std::nullopt;
}

// Of each row (0) what stands at its target (1), negated; nothing where that is the ignored one (2).
RowResults picked(B& b, const Dim&) {
  if (!is_float(b.out())) return std::nullopt;
  LoopKernel& kernel = b.kernel();
  ExprId target = kernel.cast(b.raw(1), Element::I32), column = kernel.cast(b.index(1), Element::I32);
  ExprId ignored = kernel.integer(Element::I32, static_cast<int32_t>(b.integer(2)));
  ExprId is_target = b.op(LoopOp::And, b.op(LoopOp::Eq, column, target), b.op(LoopOp::Ne, target, ignored));
  return {{sum(b, b.op(LoopOp::Select, is_target, b.op(LoopOp::Neg, plain(b, 0)), b.constant(0)))}};
}

// grad (0), log-probabilities (1), target (2), weight (3), reduction (4), ignored target (5), number of targets (6):
// one number in a row, where its target is.
RowResults nll_loss_backward(B& b, const Dim&) {
  if (!is_float(b.out()) || b.has(3) || !std::in_range<int32_t>(b.integer(5)) ||
      b.node().args[2].value->type.sizes.size() != 1 || b.node().args[1].value->type.sizes.size() != 2)
    return std::nullopt;
  constexpr int64_t kMean = 1;
  ExprId target = b.kernel().cast(b.raw(2), Element::I32), column = b.kernel().cast(b.index(1), Element::I32);
  ExprId ignored = b.kernel().integer(Element::I32, static_cast<int32_t>(b.integer(5)));
  ExprId grad = plain(b, 0);
  if (b.integer(4) == kMean) grad = over(b, grad, plain(b, 6));
  ExprId is_target = b.op(LoopOp::And, b.op(LoopOp::Eq, column, target), b.op(LoopOp::Ne, target, ignored));
  return {{b.op(LoopOp::Select, is_target, b.op(LoopOp::Neg, grad), b.constant(0))}};
}

}  // namespace

const RowRules& channel_rules() {
  static const RowRules rules = {
      {"aten._native_batch_norm_legit_functional", {0, all_but_channels, batch_norm, {{1, 1}, {2, 1}, {3, 1}, {4, 1}}}},
      {"aten._native_batch_norm_legit_no_training",
       {0, no_dims, batch_norm_by_running<6>, {{1, 1}, {2, 1}, {3, 1}, {4, 1}}}},
      {"aten.native_batch_norm", {0, no_dims, batch_norm_by_running<7>, {{1, 1}, {2, 1}, {3, 1}, {4, 1}}}},
      {"aten.native_batch_norm_backward",
       {1, all_but_channels, batch_norm_backward, {{2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}}},
      {"firesteel.picked", {0, columns, picked, {{1, 0}}}},
      {"aten.nll_loss_backward", {1, no_dims, nll_loss_backward, {{0, 0}, {2, 0}}}},
  };
  return rules;
}

}  // namespace firesteel
