// The second table of pointwise operators: rounding, signs, bits, further activations, what depends on the index.
#include <cmath>
#include <limits>

#include "fuse/node_builder.h"
#include "fuse/pointwise_tables.h"

namespace firesteel {
namespace {

using B = NodeBuilder;
using Result = std::optional<ExprId>;

bool is_full_width(B& b) { return b.out() == Element::F32 || b.out() == Element::F64; }

template <LoopOp op>
Result float_unary(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return b.op(op, b.in(0));
}

// Of NaN it is 0.
Result sign(B& b) {
  if (b.out() == Element::Bool) return std::nullopt;
  ExprId x = b.in(0), zero = b.constant(0), one = b.constant(1);
  return b.op(LoopOp::Sub, b.op(LoopOp::Select, b.op(LoopOp::Gt, x, zero), one, zero),
              b.op(LoopOp::Select, b.op(LoopOp::Lt, x, zero), one, zero));
}

Result frac(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  return b.op(LoopOp::Sub, b.in(0), b.op(LoopOp::Trunc, b.in(0)));
}

ExprId as_computed(B& b, size_t index) {
  ExprId x = b.raw(index);
  return b.kernel().cast(x, computed_as(b.kernel().type(x)));
}

Result is_nan(B& b) {
  ExprId x = as_computed(b, 0);
  return is_float(b.kernel().type(x)) ? b.op(LoopOp::Ne, x, x) : b.kernel().integer(Element::Bool, 0);
}

// The other one where one is NaN.
template <LoopOp op>
Result extreme_number(B& b) {
  if (b.out() == Element::Bool) return std::nullopt;
  ExprId x = b.in(0), y = b.in(1), either = b.op(op, x, y);
  if (!is_float(b.out())) return either;
  ExprId of_x = b.op(LoopOp::Select, b.op(LoopOp::Ne, y, y), x, either);
  return b.op(LoopOp::Select, b.op(LoopOp::Ne, x, x), y, of_x);
}

double largest(Element type) {
  switch (type) {
    case Element::F16:
      return 65504;
    case Element::BF16:
      return 0x1.fep127;
    case Element::F32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

// x (0), in place of NaN (1), inf (2) and -inf (3)
Result nan_to_num(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId x = b.in(0);
  auto given = [&](size_t index, double otherwise) {
    return b.rounded_constant(b.has(index) ? b.scalar(index) : at::Scalar(otherwise));
  };
  ExprId up = b.op(LoopOp::Select, b.op(LoopOp::Eq, x, b.constant(INFINITY)), given(2, largest(b.out())), x);
  ExprId down = b.op(LoopOp::Select, b.op(LoopOp::Eq, x, b.constant(-INFINITY)), given(3, -largest(b.out())), up);
  return b.op(LoopOp::Select, b.op(LoopOp::Ne, x, x), given(1, 0), down);
}

// Of bools, or of the bits of whole numbers of one type.
template <LoopOp op>
Result bitwise(B& b) {
  if (is_float(b.out()) || !b.fits(0, b.out()) || !b.fits(1, b.out())) return std::nullopt;
  return b.op(op, b.in(0), b.in(1));
}

Result bitwise_not(B& b) {
  if (b.out() == Element::Bool) return b.op(LoopOp::Not, b.raw(0));
  return b.op(LoopOp::Xor, b.in(0), b.constant(-1));
}

template <LoopOp op>
Result of_truths(B& b) {
  return b.op(op, b.in_as(0, Element::Bool), b.in_as(1, Element::Bool));
}

// min(max(x + 3, 0), 6)
ExprId ramp(B& b, ExprId x) {
  ExprId raised = b.op(LoopOp::Max, b.op(LoopOp::Add, x, b.constant(3)), b.constant(0));
  return b.op(LoopOp::Min, raised, b.constant(6));
}

Result hardswish(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return b.op(LoopOp::Div, b.op(LoopOp::Mul, b.in(0), ramp(b, b.in(0))), b.constant(6));
}

Result hardsigmoid(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  return b.op(LoopOp::Div, ramp(b, b.in(0)), b.constant(6));
}

// grad (0), x (1), lowest (2), highest (3)
Result hardtanh_backward(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId x = b.in(1);
  ExprId outside = b.op(LoopOp::Or, b.op(LoopOp::Le, x, b.rounded_constant(b.scalar(2))),
                        b.op(LoopOp::Ge, x, b.rounded_constant(b.scalar(3))));
  return b.op(LoopOp::Select, outside, b.constant(0), b.in(0));
}

// x (0), alpha (1), scale (2), input scale (3)
Result elu(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  const double alpha = b.scalar(1).toDouble(), scale = b.scalar(2).toDouble(), inside = b.scalar(3).toDouble();
  ExprId x = b.in(0), low = b.op(LoopOp::Expm1, b.op(LoopOp::Mul, x, b.constant(inside)));
  return b.op(LoopOp::Select, b.op(LoopOp::Le, x, b.constant(0)), b.op(LoopOp::Mul, low, b.constant(alpha * scale)),
              b.op(LoopOp::Mul, x, b.constant(scale)));
}

// grad (0), alpha (1), scale (2), input scale (3), whether the last is elu's result (4), x or that (5)
Result elu_backward(B& b) {
  if (!is_full_width(b) || b.node().args[4].kind != Arg::Kind::Const) return std::nullopt;
  const double alpha = b.scalar(1).toDouble(), scale = b.scalar(2).toDouble(), inside = b.scalar(3).toDouble();
  ExprId x = b.in(5), grad = b.in(0), steep = b.op(LoopOp::Mul, grad, b.constant(inside));
  ExprId low = kNoExpr;
  if (b.node().args[4].constant.toBool()) {
    low = b.op(LoopOp::Mul, steep, b.op(LoopOp::Add, x, b.constant(alpha * scale)));
  } else {
    low = b.op(LoopOp::Mul, b.op(LoopOp::Mul, steep, b.constant(alpha * scale)),
               b.op(LoopOp::Exp, b.op(LoopOp::Mul, x, b.constant(inside))));
  }
  return b.op(LoopOp::Select, b.op(LoopOp::Le, x, b.constant(0)), low, b.op(LoopOp::Mul, grad, b.constant(scale)));
}

// x (0), beta (1), threshold (2)
Result softplus(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId x = b.in(0), scaled = b.op(LoopOp::Mul, x, b.rounded_constant(b.scalar(1)));
  ExprId soft = b.op(LoopOp::Log1p, b.op(LoopOp::Exp, scaled));
  return b.op(LoopOp::Select, b.op(LoopOp::Gt, scaled, b.rounded_constant(b.scalar(2))), x,
              b.op(LoopOp::Div, soft, b.rounded_constant(b.scalar(1))));
}

// grad (0), x (1), beta (2), threshold (3)
Result softplus_backward(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId grad = b.in(0), scaled = b.op(LoopOp::Mul, b.in(1), b.rounded_constant(b.scalar(2)));
  ExprId z = b.op(LoopOp::Exp, scaled);
  ExprId slope = b.op(LoopOp::Div, b.op(LoopOp::Mul, grad, z), b.op(LoopOp::Add, z, b.constant(1)));
  return b.op(LoopOp::Select, b.op(LoopOp::Gt, scaled, b.rounded_constant(b.scalar(3))), grad, slope);
}

Result mish(B& b) {
  if (!is_float(b.out())) return std::nullopt;
  ExprId x = b.in(0);
  return b.op(LoopOp::Mul, x, b.op(LoopOp::Tanh, b.op(LoopOp::Log1p, b.op(LoopOp::Exp, x))));
}

// From the nearer end.
Result lerp(B& b) {
  if (!is_full_width(b)) return std::nullopt;
  ExprId from = b.in(0), to = b.in(1), weight = b.in(2);
  ExprId near = b.op(LoopOp::Lt, b.op(LoopOp::Abs, weight), b.constant(0.5));
  ExprId factor = b.op(LoopOp::Select, near, weight, b.op(LoopOp::Sub, weight, b.constant(1)));
  return b.op(LoopOp::Fma, factor, b.op(LoopOp::Sub, to, from), b.op(LoopOp::Select, near, from, to));
}

// What lies on the other side of the diagonal is 0, whatever it was.
template <bool lower>
Result triangle(B& b) {
  const size_t rank = b.node().outputs[0]->type.sizes.size();
  if (rank < 2 || b.out() == Element::Bool) return std::nullopt;
  const int64_t diagonal = b.node().args.size() > 1 && b.is_constant(1) ? b.integer(1) : 0;
  ExprId bound = b.op(LoopOp::Add, b.index(rank - 2), b.kernel().integer(Element::I64, diagonal));
  return b.op(LoopOp::Select, b.op(lower ? LoopOp::Le : LoopOp::Ge, b.index(rank - 1), bound), b.in(0), b.constant(0));
}

// Whole numbers by a number that is there when the kernel is made. By a tensor, any of which may be 0, eager's error is
// ATen's to raise.
struct Division {
  ExprId quotient, rest, has_other_sign;  // towards 0; whether the rest has not the divisor's sign
};
std::optional<Division> division(B& b) {
  if (is_float(b.out()) || b.out() == Element::Bool || !b.is_constant(1) || !b.fits(1, b.out()) ||
      !b.scalar(1).isIntegral(false) || b.scalar(1).toLong() == 0)
    return std::nullopt;
  ExprId a = b.in(0), c = b.in(1), quotient = b.op(LoopOp::Quotient, a, c);
  ExprId rest = b.op(LoopOp::Sub, a, b.op(LoopOp::Mul, quotient, c));
  return Division{quotient, rest, b.op(b.scalar(1).toLong() > 0 ? LoopOp::Lt : LoopOp::Gt, rest, b.constant(0))};
}

Result floor_of(B& b) {
  const std::optional<Division> d = division(b);
  if (!d) return std::nullopt;
  return b.op(LoopOp::Select, d->has_other_sign, b.op(LoopOp::Sub, d->quotient, b.constant(1)), d->quotient);
}

// The rounding stands in argument 2; without one the result is no whole number.
Result rounded_quotient(B& b) {
  if (b.text(2) == "floor") return floor_of(b);
  const std::optional<Division> d = b.text(2) == "trunc" ? division(b) : std::nullopt;
  return d ? Result(d->quotient) : std::nullopt;
}

Result remainder(B& b) {
  const std::optional<Division> d = division(b);
  if (!d) return std::nullopt;
  return b.op(LoopOp::Select, d->has_other_sign, b.op(LoopOp::Add, d->rest, b.in(1)), d->rest);
}

Result remainder_towards_zero(B& b) {
  const std::optional<Division> d = division(b);
  return d ? Result(d->rest) : std::nullopt;
}

}  // namespace

const PointwiseRules& math_rules() {
  static const PointwiseRules rules = {
      {"aten.floor", float_unary<LoopOp::Floor>},
      {"aten.ceil", float_unary<LoopOp::Ceil>},
      {"aten.trunc", float_unary<LoopOp::Trunc>},
      {"aten.round", float_unary<LoopOp::Rint>},
      {"aten.expm1", float_unary<LoopOp::Expm1>},
      {"aten.log1p", float_unary<LoopOp::Log1p>},
      {"aten.exp2", float_unary<LoopOp::Exp2>},
      {"aten.log2", float_unary<LoopOp::Log2>},
      {"aten.log10", float_unary<LoopOp::Log10>},
      {"aten.tan", float_unary<LoopOp::Tan>},
      {"aten.asin", float_unary<LoopOp::Asin>},
      {"aten.acos", float_unary<LoopOp::Acos>},
      {"aten.atan", float_unary<LoopOp::Atan>},
      {"aten.sinh", float_unary<LoopOp::Sinh>},
      {"aten.cosh", float_unary<LoopOp::Cosh>},
      {"aten.sign", sign},
      {"aten.sgn", sign},
      {"aten.frac", frac},
      {"aten.isnan", is_nan},
      {"aten.fmax", extreme_number<LoopOp::Max>},
      {"aten.fmin", extreme_number<LoopOp::Min>},
      {"aten.nan_to_num", nan_to_num},
      {"aten.bitwise_and.Tensor", bitwise<LoopOp::And>},
      {"aten.bitwise_and.Scalar", bitwise<LoopOp::And>},
      {"aten.bitwise_or.Tensor", bitwise<LoopOp::Or>},
      {"aten.bitwise_or.Scalar", bitwise<LoopOp::Or>},
      {"aten.bitwise_xor.Tensor", bitwise<LoopOp::Xor>},
      {"aten.bitwise_xor.Scalar", bitwise<LoopOp::Xor>},
      {"aten.bitwise_not", bitwise_not},
      {"aten.logical_and", of_truths<LoopOp::And>},
      {"aten.logical_or", of_truths<LoopOp::Or>},
      {"aten.logical_xor", of_truths<LoopOp::Xor>},
      {"aten.hardswish", hardswish},
      {"aten.hardsigmoid", hardsigmoid},
      {"aten.hardtanh_backward", hardtanh_backward},
      {"aten.elu", elu},
      {"aten.elu_backward", elu_backward},
      {"aten.softplus", softplus},
      {"aten.softplus_backward", softplus_backward},
      {"aten.mish", mish},
      {"aten.lerp.Tensor", lerp},
      {"aten.tril", triangle<true>},
      {"aten.triu", triangle<false>},
      {"aten.floor_divide", floor_of},
      {"aten.floor_divide.Scalar", floor_of},
      {"aten.div.Tensor_mode", rounded_quotient},
      {"aten.div.Scalar_mode", rounded_quotient},
      {"aten.remainder.Tensor", remainder},
      {"aten.remainder.Scalar", remainder},
      {"aten.fmod.Tensor", remainder_towards_zero},
      {"aten.fmod.Scalar", remainder_towards_zero},
  };
  return rules;
}

}  // namespace firesteel
