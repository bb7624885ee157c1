// The table of pointwise operators, each with the formula that ATen's CPU kernels use.
#include "fuse/pointwise_rules.h"

#include <cmath>

#include "fuse/lookup_rules.h"
#include "fuse/piece_rules.h"
#include "fuse/pointwise_tables.h"
#include "fuse/size_math.h"
#include "fuse/window_rules.h"

namespace firesteel {
namespace {

using B = NodeBuilder;
using Result = std::optional<ExprId>;

template <LoopOp op>
Result unary(B& b) {
  if (b.out() == Element::Bool) return std::nullopt;
  return b.op(op, b.in(0));
}

template <LoopOp op>
Result float_unary(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return b.op(op, b.in(0));
}

template <LoopOp op>
Result binary(B& b) {
  if (b.out() == Element::Bool) return std::nullopt;
  return b.op(op, b.in(0), b.in(1));
}

// ATen keeps the second factor in full precision where it is one number, and rounds the term of a sum.
template <LoopOp op>
Result product(B& b) {
  if (b.out() == Element::Bool || (op == LoopOp::Div && !is_float(b.out()))) return std::nullopt;
  return b.op(op, b.in(0), b.in_unrounded(1));
}

// add, sub and rsub with their `alpha`: a ± alpha·b. ATen rounds the product of half-width floats in some places and
// not in others, by where in a vector they lie.
template <bool subtract, bool reversed>
Result sum(B& b) {
  if (b.out() == Element::Bool) return std::nullopt;
  const at::Scalar alpha = b.scalar(2);
  ExprId kept = b.in(reversed ? 1 : 0), scaled = b.in(reversed ? 0 : 1);
  if (alpha.isFloatingPoint() ? alpha.toDouble() == 1.0 : alpha.toLong() == 1) {
    return b.op(subtract ? LoopOp::Sub : LoopOp::Add, kept, scaled);
  }
  if (b.out() != Element::F32 && b.out() != Element::F64) return std::nullopt;
  ExprId factor = b.rounded_constant(subtract ? at::Scalar(-alpha.toDouble()) : alpha);
  return b.op(LoopOp::Fma, scaled, factor, kept);
}

template <LoopOp op>
Result compare(B& b) {
  const std::optional<Element> common = b.common_type();
  if (!common || !b.fits(0, *common) || !b.fits(1, *common)) return std::nullopt;
  return b.op(op, b.in_as(0, *common), b.in_as(1, *common));
}

Result logical_not(B& b) { return b.op(LoopOp::Not, b.kernel().cast(b.raw(0), Element::Bool)); }

Result where(B& b) {
  if (!b.is_bool(0)) return std::nullopt;
  return b.op(LoopOp::Select, b.raw(0), b.in(1), b.in(2));
}

// Takes the number, or tensor of one, as the result's type holds it.
Result masked_fill(B& b) {
  if (!b.is_bool(1) || (b.is_constant(2) && !b.fits(2, b.out()))) return std::nullopt;
  return b.op(LoopOp::Select, b.raw(1), b.in(2), b.in(0));
}

bool is_full_width(B& b) { return b.out() == Element::F32 || b.out() == Element::F64; }

// self + value·a·b and self + value·a/b, as optimizers have them. Half-width floats are rounded in between, or not.
template <LoopOp op>
Result add_scaled(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  ExprId scaled = b.in(1);
  if (b.scalar(3).toDouble() != 1) scaled = b.op(LoopOp::Mul, b.rounded_constant(b.scalar(3)), scaled);
  if (op == LoopOp::Mul) return b.op(LoopOp::Fma, scaled, b.in(2), b.in(0));
  return b.op(LoopOp::Add, b.in(0), b.op(LoopOp::Div, scaled, b.in(2)));
}

// From the nearer end.
Result lerp_by_number(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  const double weight = b.scalar(2).toDouble();
  ExprId distance = b.op(LoopOp::Sub, b.in(1), b.in(0));
  if (std::abs(weight) < 0.5) return b.op(LoopOp::Fma, b.rounded_constant(weight), distance, b.in(0));
  ExprId rest = b.op(LoopOp::Sub, b.constant(1), b.rounded_constant(weight));
  return b.op(LoopOp::Fma, b.op(LoopOp::Neg, distance), rest, b.in(1));
}

Result leaky_relu(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  ExprId x = b.in(0), scaled = b.op(LoopOp::Mul, x, b.rounded_constant(b.scalar(1)));
  return b.op(LoopOp::Select, b.op(LoopOp::Gt, x, b.constant(0)), x, scaled);
}

Result leaky_relu_backward(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  ExprId grad = b.in(0), scaled = b.op(LoopOp::Mul, grad, b.rounded_constant(b.scalar(2)));
  return b.op(LoopOp::Select, b.op(LoopOp::Gt, b.in(1), b.constant(0)), grad, scaled);
}

Result mse_loss_backward(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  constexpr int64_t kMean = 1;
  const Dim points = product(b.node().args[1].value->type.sizes);
  ExprId factor = b.constant(2);
  if (b.integer(3) == kMean) {
    factor = points.is_number() ? b.constant(2 / static_cast<double>(points.number()))
                                : b.op(LoopOp::Div, factor, b.size(points));
  }
  ExprId distance = b.op(LoopOp::Sub, b.in(1), b.in(2));
  return b.op(LoopOp::Mul, b.op(LoopOp::Mul, factor, distance), b.in(0));
}

// Comparisons with NaN are false, so NaN comes through.
ExprId at_least(B& b, ExprId x, ExprId bound) { return b.op(LoopOp::Select, b.op(LoopOp::Lt, x, bound), bound, x); }
ExprId at_most(B& b, ExprId x, ExprId bound) { return b.op(LoopOp::Select, b.op(LoopOp::Gt, x, bound), bound, x); }

// A bound that is NaN, or that eager would have to round to an integer, is left to ATen.
bool plain_bound(B& b, size_t index) {
  if (!b.has(index)) return true;
  if (!b.is_constant(index) || !b.fits(index, b.out())) return false;
  const at::Scalar bound = b.scalar(index);
  return bound.isFloatingPoint() ? is_float(b.out()) && !std::isnan(bound.toDouble()) : !bound.isBoolean();
}

template <int low, int high>
Result clamp(B& b) {
  if (b.out() == Element::Bool || (low && !plain_bound(b, low)) || (high && !plain_bound(b, high))) return std::nullopt;
  ExprId x = b.in(0);
  if (low && b.has(low)) x = at_least(b, x, b.in(low));
  if (high && b.has(high)) x = at_most(b, x, b.in(high));
  return x;
}

Result relu(B& b) {
  if (b.out() == Element::Bool) return std::nullopt;
  return at_least(b, b.in(0), b.constant(0));
}

Result threshold_backward(B& b) {
  ExprId bound = b.rounded_constant(b.scalar(2));
  return b.op(LoopOp::Select, b.op(LoopOp::Le, b.in(1), bound), b.constant(0), b.in(0));
}

ExprId reciprocal_of(B& b, ExprId x) { return b.op(LoopOp::Div, b.constant(1), x); }

Result reciprocal(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return reciprocal_of(b, b.in(0));
}

Result rsqrt(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return reciprocal_of(b, b.op(LoopOp::Sqrt, b.in(0)));
}

ExprId one_plus_exp_of_minus(B& b, ExprId x) {
  return b.op(LoopOp::Add, b.constant(1), b.op(LoopOp::Exp, b.op(LoopOp::Neg, x)));
}

Result sigmoid(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return reciprocal_of(b, one_plus_exp_of_minus(b, b.in(0)));
}

Result silu(B& b) { return b.op(LoopOp::Div, b.in(0), one_plus_exp_of_minus(b, b.in(0))); }

Result silu_backward(B& b) {
  ExprId x = b.in(1), s = reciprocal_of(b, one_plus_exp_of_minus(b, x));
  ExprId slope = b.op(LoopOp::Add, b.constant(1), b.op(LoopOp::Mul, x, b.op(LoopOp::Sub, b.constant(1), s)));
  return b.op(LoopOp::Mul, b.op(LoopOp::Mul, b.in(0), s), slope);
}

Result sigmoid_backward(B& b) {
  ExprId y = b.in(1);
  return b.op(LoopOp::Mul, b.op(LoopOp::Mul, b.in(0), b.op(LoopOp::Sub, b.constant(1), y)), y);
}

Result tanh_backward(B& b) {
  ExprId y = b.in(1);
  return b.op(LoopOp::Mul, b.in(0), b.op(LoopOp::Fma, b.op(LoopOp::Neg, y), y, b.constant(1)));
}

// 1 + erf(x / √2), twice the normal distribution function.
ExprId twice_cdf(B& b, ExprId x) {
  return b.op(LoopOp::Add, b.constant(1), b.op(LoopOp::Erf, b.op(LoopOp::Mul, x, b.constant(M_SQRT1_2))));
}

constexpr double kGeluBeta = M_SQRT2 * M_2_SQRTPI * 0.5, kGeluKappa = 0.044715;

// tanh(β(x + κx³)), the inside of the approximate gelu.
ExprId gelu_tanh_inner(B& b, ExprId x, ExprId square) {
  ExprId cube = b.op(LoopOp::Mul, square, x);
  ExprId inner = b.op(LoopOp::Fma, b.constant(kGeluKappa), cube, x);
  return b.op(LoopOp::Tanh, b.op(LoopOp::Mul, b.constant(kGeluBeta), inner));
}

std::optional<bool> gelu_is_exact(B& b, size_t index) {
  if (b.text(index) == "none") return true;
  if (b.text(index) == "tanh") return false;
  return std::nullopt;
}

Result gelu(B& b) {
  const std::optional<bool> exact = gelu_is_exact(b, 1);
  if (!exact) return std::nullopt;
  ExprId x = b.in(0), half = b.op(LoopOp::Mul, x, b.constant(0.5));
  if (*exact) return b.op(LoopOp::Mul, half, twice_cdf(b, x));
  ExprId tanh = gelu_tanh_inner(b, x, b.op(LoopOp::Mul, x, x));
  return b.op(LoopOp::Mul, half, b.op(LoopOp::Add, b.constant(1), tanh));
}

Result gelu_backward(B& b) {
  const std::optional<bool> exact = gelu_is_exact(b, 2);
  if (!exact) return std::nullopt;
  ExprId x = b.in(1), square = b.op(LoopOp::Mul, x, x);
  if (*exact) {
    ExprId cdf = b.op(LoopOp::Mul, b.constant(0.5), twice_cdf(b, x));
    ExprId bell = b.op(LoopOp::Exp, b.op(LoopOp::Mul, square, b.constant(-0.5)));
    ExprId pdf = b.op(LoopOp::Mul, b.constant(M_2_SQRTPI * M_SQRT1_2 * 0.5), bell);
    return b.op(LoopOp::Mul, b.in(0), b.op(LoopOp::Fma, x, pdf, cdf));
  }
  ExprId tanh = gelu_tanh_inner(b, x, square);
  ExprId left = b.op(LoopOp::Mul, b.constant(0.5), b.op(LoopOp::Add, b.constant(1), tanh));
  ExprId steep = b.op(LoopOp::Fma, b.op(LoopOp::Neg, tanh), tanh, b.constant(1));
  ExprId inner = b.op(LoopOp::Fma, b.constant(3 * kGeluKappa), square, b.constant(1));
  ExprId slope = b.op(LoopOp::Mul, b.constant(kGeluBeta), inner);
  ExprId right = b.op(LoopOp::Mul, b.op(LoopOp::Mul, b.op(LoopOp::Mul, b.constant(0.5), x), steep), slope);
  return b.op(LoopOp::Mul, b.in(0), b.op(LoopOp::Add, left, right));
}

// The exponents for which ATen does not call pow. bfloat16 rounds inside some of them, so it keeps the simple ones;
// float16 has no square root among them.
Result pow(B& b) {
  if (!is_float(b.out()) || !b.is_constant(1)) return std::nullopt;
  const double exponent = b.scalar(1).toDouble();
  ExprId x = b.in(0);
  auto times = [&](ExprId a, ExprId c) { return b.op(LoopOp::Mul, a, c); };
  if (exponent == 1) return x;
  if (exponent == 2) return times(x, x);
  if (exponent == 0.5 && b.out() != Element::F16) return b.op(LoopOp::Sqrt, x);
  if (exponent == -1) return reciprocal_of(b, x);
  if (b.out() == Element::BF16) return std::nullopt;
  if (exponent == 3) return times(times(x, x), x);
  if (exponent == -2) return reciprocal_of(b, times(x, x));
  return std::nullopt;
}

// Out-of-range floats become whatever the machine says, so casts to the small ints are left to ATen.
Result copy_of(B& b, size_t source) {
  const Element from = b.kernel().type(b.raw(source)), to = b.out();
  const bool small_int = to == Element::U8 || to == Element::I8 || to == Element::I16;
  if (is_float(from) && small_int) return std::nullopt;
  return b.kernel().cast(b.raw(source), to);
}
Result copy_first(B& b) { return copy_of(b, 0); }
Result copy_second(B& b) { return copy_of(b, 1); }

// clang-format off
#define FIRESTEEL_POINTWISE_RULES(X)                                                                      \
  X("aten.add.Tensor", (sum<false, false>))      X("aten.add.Scalar", (sum<false, false>))                \
  X("aten.sub.Tensor", (sum<true, false>))       X("aten.sub.Scalar", (sum<true, false>))                 \
  X("aten.rsub.Tensor", (sum<true, true>))       X("aten.rsub.Scalar", (sum<true, true>))                 \
  X("aten.mul.Tensor", product<LoopOp::Mul>)     X("aten.mul.Scalar", product<LoopOp::Mul>)               \
  X("aten.div.Tensor", product<LoopOp::Div>)     X("aten.div.Scalar", product<LoopOp::Div>)               \
  X("aten.neg", unary<LoopOp::Neg>)              X("aten.abs", unary<LoopOp::Abs>)                        \
  X("aten.relu", relu)                           X("aten.threshold_backward", threshold_backward)         \
  X("aten.sigmoid", sigmoid)                     X("aten.sigmoid_backward", sigmoid_backward)             \
  X("aten.tanh", float_unary<LoopOp::Tanh>)      X("aten.tanh_backward", tanh_backward)                   \
  X("aten.silu", silu)                           X("aten.silu_backward", silu_backward)                   \
  X("aten.gelu", gelu)                           X("aten.gelu_backward", gelu_backward)                   \
  X("aten.exp", float_unary<LoopOp::Exp>)        X("aten.log", float_unary<LoopOp::Log>)                  \
  X("aten.sin", float_unary<LoopOp::Sin>)        X("aten.cos", float_unary<LoopOp::Cos>)                  \
  X("aten.erf", float_unary<LoopOp::Erf>)        X("aten.sqrt", float_unary<LoopOp::Sqrt>)                \
  X("aten.rsqrt", rsqrt)                         X("aten.reciprocal", reciprocal)                         \
  X("aten.pow.Tensor_Scalar", pow)               X("aten.where.self", where)                              \
  X("aten.masked_fill.Scalar", masked_fill)      X("aten.masked_fill.Tensor", masked_fill)               \
  X("aten.addcmul", add_scaled<LoopOp::Mul>)     X("aten.addcdiv", add_scaled<LoopOp::Div>)              \
  X("aten.lerp.Scalar", lerp_by_number)          X("aten.mse_loss_backward", mse_loss_backward)          \
  X("aten.leaky_relu", leaky_relu)               X("aten.leaky_relu_backward", leaky_relu_backward)      \
  X("aten.maximum", binary<LoopOp::Max>)         X("aten.minimum", binary<LoopOp::Min>)                   \
  X("aten.clamp", (clamp<1, 2>))                 X("aten.hardtanh", (clamp<1, 2>))                        \
  X("aten.clamp_min", (clamp<1, 0>))             X("aten.clamp_max", (clamp<0, 1>))                       \
  X("aten.eq.Tensor", compare<LoopOp::Eq>)       X("aten.eq.Scalar", compare<LoopOp::Eq>)                 \
  X("aten.ne.Tensor", compare<LoopOp::Ne>)       X("aten.ne.Scalar", compare<LoopOp::Ne>)                 \
  X("aten.lt.Tensor", compare<LoopOp::Lt>)       X("aten.lt.Scalar", compare<LoopOp::Lt>)                 \
  X("aten.le.Tensor", compare<LoopOp::Le>)       X("aten.le.Scalar", compare<LoopOp::Le>)                 \
  X("aten.gt.Tensor", compare<LoopOp::Gt>)       X("aten.gt.Scalar", compare<LoopOp::Gt>)                 \
  X("aten.ge.Tensor", compare<LoopOp::Ge>)       X("aten.ge.Scalar", compare<LoopOp::Ge>)                 \
  X("aten.logical_not", logical_not)             X("aten.copy", copy_second)                              \
  X("aten._to_copy", copy_first)                 X("aten.clone", copy_first)                              \
  X("aten.lift_fresh_copy", copy_first)
// clang-format on

const PointwiseRules& arithmetic_rules() {
#define X(op, rule) {op, rule},
  static const PointwiseRules table = {FIRESTEEL_POINTWISE_RULES(X)};
#undef X
  return table;
}

PointwiseRule rule_of(const Node& node) {
  const std::string name = node.op.str();
  for (const PointwiseRules* rules : {&arithmetic_rules(), &math_rules()}) {
    if (auto found = rules->find(name); found != rules->end()) return found->second;
  }
  return nullptr;
}

}  // namespace

ExprId NoOperands::value(const Value* value) {
  kernel_.buffers.push_back(*element_of(value->type.dtype));
  return kernel_.load(static_cast<int32_t>(kernel_.buffers.size()) - 1, {});
}

ExprId NoOperands::look_up(const Lookup& lookup, ExprId further) {
  kernel_.buffers.push_back(*element_of(lookup.table->type.dtype));
  return kernel_.load_at(static_cast<int32_t>(kernel_.buffers.size()) - 1, {}, further);
}

ExprId NoOperands::piece(const Piece& piece, ExprId inside) {
  kernel_.buffers.push_back(*element_of(piece.value->type.dtype));
  return kernel_.load_if(static_cast<int32_t>(kernel_.buffers.size()) - 1, {}, inside);
}

ExprId NoOperands::window(const WindowPlace& place, ExprId inside) {
  kernel_.buffers.push_back(*element_of(place.value->type.dtype));
  const auto buffer = static_cast<int32_t>(kernel_.buffers.size()) - 1;
  return inside == kNoExpr ? kernel_.load(buffer, {}) : kernel_.load_if(buffer, {}, inside);
}

ExprId NoOperands::pixel(const Value* picture, ExprId row, ExprId column) {
  kernel_.buffers.push_back(*element_of(picture->type.dtype));
  const auto buffer = static_cast<int32_t>(kernel_.buffers.size()) - 1;
  return kernel_.load_near(buffer, {}, kernel_.cast(row, Element::I64), column);
}

std::optional<ExprId> lower_pointwise(const Node& node, LoopKernel& kernel, Operands& operands) {
  const PointwiseRule rule = rule_of(node);
  if (!rule) return std::nullopt;
  NodeBuilder builder(node, kernel, operands);
  if (!builder.usable() || node.outputs.size() != 1) return std::nullopt;
  std::optional<ExprId> result = rule(builder);
  if (!result) return std::nullopt;
  return builder.finish(*result);
}

bool is_pointwise(const Node& node) {
  if (!node.op.is_aten() || !rule_of(node)) return false;
  LoopKernel scratch;
  NoOperands operands(scratch);
  return lower_pointwise(node, scratch, operands).has_value();
}

}  // namespace firesteel
