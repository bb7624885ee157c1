// The table of plain reductions. Half-width floats are summed in float32 and rounded once, as ATen does.
#include <cmath>
#include <limits>

#include "fuse/row_rules.h"
#include "fuse/size_math.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

using B = NodeBuilder;

bool widens(Element from, Element to) {
  return !is_float(from) || element_bytes(computed_as(to)) >= element_bytes(computed_as(from));
}

Element element_in(B& b) { return *element_of(b.node().args[0].value->type.dtype); }

template <LoopOp op>
RowResults accumulate(B& b, const Dim&) {
  const Element out = b.out();
  if (out == Element::Bool || (is_float(element_in(b)) && !is_float(out)) || !widens(element_in(b), out) ||
      (!is_float(out) && out != Element::I64))
    return std::nullopt;
  return {{b.op(op, b.in(0))}};
}

ExprId mean_of(B& b, ExprId x, const Dim& length) { return b.op(LoopOp::Div, b.op(LoopOp::RowSum, x), b.size(length)); }

RowResults mean(B& b, const Dim& length) {
  if (!is_float(b.out()) || !widens(element_in(b), b.out())) return std::nullopt;
  return {{mean_of(b, b.in(0), length)}};
}

template <LoopOp op>
RowResults extreme(B& b, const Dim&) {
  if (b.out() == Element::Bool) return {{b.op(op == LoopOp::RowMax ? LoopOp::RowAny : LoopOp::RowAll, b.raw(0))}};
  return {{b.op(op, b.in(0))}};
}

template <LoopOp op>
RowResults of_truths(B& b, const Dim&) {
  return {{b.op(op, b.kernel().cast(b.raw(0), Element::Bool))}};
}

// Where in the row a point lies, counted as `reduced` dimensions in their order.
ExprId place_in_row(B& b) {
  const std::vector<Dim>& sizes = b.node().args[0].value->type.sizes;
  const std::vector<bool> reduced = *dims_by_name(b.node(), sizes.size());
  ExprId place = b.kernel().integer(Element::I64, 0);
  Dim stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (!reduced[d]) continue;
    ExprId step = b.kernel().size(stride);
    place = b.op(LoopOp::Add, place, is_number(stride, 1) ? b.index(d) : b.op(LoopOp::Mul, b.index(d), step));
    stride = stride * sizes[d];
  }
  return place;
}

struct Best {
  ExprId value, place;
};

// The largest or smallest and where it is first; a NaN is larger and smaller than all else.
template <LoopOp op>
std::optional<Best> best_of(B& b, const Dim& length) {
  if (length.is_number() && length.number() >= std::numeric_limits<int32_t>::max()) return std::nullopt;
  const Element in = element_in(b);
  ExprId x = b.kernel().cast(b.raw(0), in == Element::Bool ? Element::I32 : computed_as(in)), best = b.op(op, x);
  ExprId here = b.op(LoopOp::Eq, x, best);
  if (is_float(in)) here = b.op(LoopOp::Or, here, b.op(LoopOp::Ne, x, x));
  ExprId place = b.kernel().cast(place_in_row(b), Element::I32);
  ExprId beyond = b.kernel().integer(Element::I32, std::numeric_limits<int32_t>::max());
  return Best{best, b.op(LoopOp::RowMin, b.op(LoopOp::Select, here, place, beyond))};
}

template <LoopOp op>
RowResults place_of_best(B& b, const Dim& length) {
  auto found = best_of<op>(b, length);
  if (!found) return std::nullopt;
  return {{found->place}};
}

template <LoopOp op>
RowResults best_and_place(B& b, const Dim& length) {
  auto found = best_of<op>(b, length);
  if (!found) return std::nullopt;
  return {{found->value, found->place}};
}

// In two passes: the mean, then the squares of what is left of it.
struct Moments {
  ExprId mean, variance;
};
std::optional<Moments> moments(B& b, const Dim& length) {
  const Arg* correction = find_arg(b.node(), "correction");
  if (!is_float(b.out()) || !correction) return std::nullopt;
  double missing = 1;
  if (correction->kind == Arg::Kind::Const) missing = correction->constant.toScalar().toDouble();
  ExprId x = b.in(0), average = mean_of(b, x, length), rest = b.op(LoopOp::Sub, x, average);
  ExprId squares = b.op(LoopOp::RowSum, b.op(LoopOp::Mul, rest, rest));
  const ExprId divisor = length.is_number()
                             ? b.constant(std::max(0.0, static_cast<double>(length.number()) - missing))
                             : b.op(LoopOp::Max, b.op(LoopOp::Sub, b.size(length), b.constant(missing)), b.constant(0));
  return Moments{average, b.op(LoopOp::Div, squares, divisor)};
}

RowResults var(B& b, const Dim& length) {
  auto found = moments(b, length);
  if (!found) return std::nullopt;
  return {{found->variance}};
}

RowResults std_dev(B& b, const Dim& length) {
  auto found = moments(b, length);
  if (!found) return std::nullopt;
  return {{b.op(LoopOp::Sqrt, found->variance)}};
}

RowResults var_mean(B& b, const Dim& length) {
  auto found = moments(b, length);
  if (!found) return std::nullopt;
  return {{found->variance, found->mean}};
}

// A row of nothing but -inf must not become NaN.
RowResults logsumexp(B& b, const Dim&) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId x = b.in(0), largest = b.op(LoopOp::RowMax, x);
  ExprId finite =
      b.op(LoopOp::Select, b.op(LoopOp::Eq, b.op(LoopOp::Abs, largest), b.constant(INFINITY)), b.constant(0), largest);
  ExprId sum = b.op(LoopOp::RowSum, b.op(LoopOp::Exp, b.op(LoopOp::Sub, x, finite)));
  return {{b.op(LoopOp::Add, b.op(LoopOp::Log, sum), finite)}};
}

// self (0), target (1), reduction (2): the mean or the sum of all squares.
RowResults mse_loss(B& b, const Dim& length) {
  constexpr int64_t kMean = 1;
  if (b.out() != Element::F32 && b.out() != Element::F64) return std::nullopt;
  ExprId distance = b.op(LoopOp::Sub, b.in(0), b.in(1)), square = b.op(LoopOp::Mul, distance, distance);
  return {{b.integer(2) == kMean ? mean_of(b, square, length) : b.op(LoopOp::RowSum, square)}};
}

std::optional<std::vector<bool>> mse_loss_dims(const Node& node, size_t rank) {
  const bool reduces = node.args[2].kind == Arg::Kind::Const && node.args[2].constant.toInt() != 0;
  return reduces && node.args[1].kind == Arg::Kind::Value &&
                 node.args[0].value->type.sizes == node.args[1].value->type.sizes
             ? all_dims(node, rank)
             : std::nullopt;
}

RowResults vector_norm(B& b, const Dim&) {
  if (!is_float(element_in(b)) || !is_float(b.out()) || !widens(element_in(b), b.out()) || !b.is_constant(1))
    return std::nullopt;
  const double order = b.scalar(1).toDouble();
  ExprId x = b.in(0);
  if (order == 2) return {{b.op(LoopOp::Sqrt, b.op(LoopOp::RowSum, b.op(LoopOp::Mul, x, x)))}};
  if (order == 1) return {{b.op(LoopOp::RowSum, b.op(LoopOp::Abs, x))}};
  if (order == INFINITY) return {{b.op(LoopOp::RowMax, b.op(LoopOp::Abs, x))}};
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<bool>> no_dims(const Node&, size_t rank) { return std::vector<bool>(rank, false); }
std::optional<std::vector<bool>> all_dims(const Node&, size_t rank) { return std::vector<bool>(rank, true); }

std::optional<std::vector<bool>> dims_by_name(const Node& node, size_t rank) {
  const Arg* dim = find_arg(node, "dim");
  if (!dim || dim->kind == Arg::Kind::None) return all_dims(node, rank);
  if (dim->kind != Arg::Kind::Const) return std::nullopt;
  std::vector<int64_t> listed;
  if (dim->constant.isInt()) {
    listed.push_back(dim->constant.toInt());
  } else if (dim->constant.isIntList()) {
    listed = dim->constant.toIntVector();
    if (listed.empty()) return all_dims(node, rank);
  } else {
    return std::nullopt;
  }
  std::vector<bool> reduced(rank, false);
  for (int64_t d : listed) {
    const int64_t at = d < 0 ? d + static_cast<int64_t>(rank) : d;
    if (at < 0 || at >= static_cast<int64_t>(rank)) return std::nullopt;
    reduced[at] = true;
  }
  return reduced;
}

const RowRules& reduction_rules() {
  static const RowRules rules = {
      {"aten.sum", {0, all_dims, accumulate<LoopOp::RowSum>}},
      {"aten.sum.dim_IntList", {0, dims_by_name, accumulate<LoopOp::RowSum>}},
      {"aten.prod", {0, all_dims, accumulate<LoopOp::RowProduct>}},
      {"aten.prod.dim_int", {0, dims_by_name, accumulate<LoopOp::RowProduct>}},
      {"aten.mean", {0, all_dims, mean}},
      {"aten.mean.dim", {0, dims_by_name, mean}},
      {"aten.amax", {0, dims_by_name, extreme<LoopOp::RowMax>}},
      {"aten.amin", {0, dims_by_name, extreme<LoopOp::RowMin>}},
      {"aten.max", {0, all_dims, extreme<LoopOp::RowMax>}},
      {"aten.min", {0, all_dims, extreme<LoopOp::RowMin>}},
      {"aten.argmax", {0, dims_by_name, place_of_best<LoopOp::RowMax>}},
      {"aten.argmin", {0, dims_by_name, place_of_best<LoopOp::RowMin>}},
      {"aten.max.dim", {0, dims_by_name, best_and_place<LoopOp::RowMax>}},
      {"aten.min.dim", {0, dims_by_name, best_and_place<LoopOp::RowMin>}},
      {"aten.any", {0, all_dims, of_truths<LoopOp::RowAny>}},
      {"aten.any.dim", {0, dims_by_name, of_truths<LoopOp::RowAny>}},
      {"aten.any.dims", {0, dims_by_name, of_truths<LoopOp::RowAny>}},
      {"aten.all", {0, all_dims, of_truths<LoopOp::RowAll>}},
      {"aten.all.dim", {0, dims_by_name, of_truths<LoopOp::RowAll>}},
      {"aten.all.dims", {0, dims_by_name, of_truths<LoopOp::RowAll>}},
      {"aten.var.correction", {0, dims_by_name, var}},
      {"aten.std.correction", {0, dims_by_name, std_dev}},
      {"aten.var_mean.correction", {0, dims_by_name, var_mean}},
      {"aten.logsumexp", {0, dims_by_name, logsumexp}},
      {"aten.mse_loss", {0, mse_loss_dims, mse_loss}},
      {"aten.linalg_vector_norm", {0, dims_by_name, vector_norm}},
  };
  return rules;
}

}  // namespace firesteel
