// 32 polynomials of degree 5, interpolated here and now. Their coefficients fill two registers for each power.
#include "codegen/cpu/erf_table.h"

#include <array>
#include <cmath>

#include <llvm/IR/IntrinsicsX86.h>

namespace firesteel::cpu {
namespace {

using llvm::Value;

constexpr int kPieces = 32, kPowers = 6;
constexpr double kWidth = 0.125;
constexpr double kLast = 3.93;  // from here on erf is 1 in float32

// Coefficients of the polynomial through (x, y), lowest power first: Newton's divided differences, multiplied out.
template <size_t n>
std::array<double, n> interpolate(const std::array<double, n>& x, std::array<double, n> y) {
  for (size_t order = 1; order < n; ++order) {
    for (size_t i = n; i-- > order;) y[i] = (y[i] - y[i - 1]) / (x[i] - x[i - order]);
  }
  std::array<double, n> result{};
  for (size_t i = n; i-- > 0;) {
    for (size_t power = n - 1; power > 0; --power) result[power] = result[power - 1] - x[i] * result[power];
    result[0] = y[i] - x[i] * result[0];
  }
  return result;
}

template <size_t n>
std::array<double, n> chebyshev_points(double from, double to) {
  std::array<double, n> points;
  for (size_t k = 0; k < n; ++k)
    points[k] = (from + to) / 2 + (to - from) / 2 * std::cos(M_PI * (2 * static_cast<double>(k) + 1) / (2 * n));
  return points;
}

using Piece = std::array<double, kPowers>;

// Around a multiple of the width. The first is odd, and fitted to erf(x)/x: right to the last place near 0.
Piece piece(int number) {
  if (number == 0) {
    const auto squares = chebyshev_points<3>(0, kWidth * kWidth / 4);
    std::array<double, 3> quotients;
    for (size_t i = 0; i < 3; ++i) quotients[i] = std::erf(std::sqrt(squares[i])) / std::sqrt(squares[i]);
    const auto odd = interpolate(squares, quotients);
    return {0, odd[0], 0, odd[1], 0, odd[2]};
  }
  const auto points = chebyshev_points<kPowers>(-kWidth / 2, kWidth / 2);
  Piece values;
  for (size_t i = 0; i < kPowers; ++i) values[i] = std::erf(number * kWidth + points[i]);
  return interpolate(points, values);
}

const std::array<Piece, kPieces>& pieces() {
  static const auto all = [] {
    std::array<Piece, kPieces> made;
    for (int i = 0; i < kPieces; ++i) made[i] = piece(i);
    return made;
  }();
  return all;
}

Value* half_table(const Lanes& l, int power, int first) {
  std::vector<float> numbers;
  // The first power less one, for emit_erf_of_size() adds the argument itself.
  const double less = power == 1 ? 1 : 0;
  for (int i = first; i < first + kPieces / 2; ++i) numbers.push_back(static_cast<float>(pieces()[i][power] - less));
  return llvm::ConstantDataVector::get(l.module.getContext(), numbers);
}

Value* look_up(const Lanes& l, int power, Value* number) {
  return l.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {},
                             {half_table(l, power, 0), number, half_table(l, power, kPieces / 2)});
}

}  // namespace

Value* emit_erf_of_size(const Lanes& l, Value* size) {
  // Adding 1.5·2^23 rounds to a whole number and leaves it in the last bits.
  constexpr double kRounding = 12582912.0;
  Value* t = l.at_most(size, l.f(kLast));
  Value* shifted = l.fma(t, l.f(1 / kWidth), l.f(kRounding));
  Value* number = l.as_int(shifted);  // of the piece: the permutation takes the last five bits
  Value* rest = l.fma(l.b.CreateFSub(shifted, l.f(kRounding)), l.f(-kWidth), t);
  Value* sum = look_up(l, kPowers - 1, number);
  for (int power = kPowers - 2; power > 0; --power) sum = l.fma(sum, rest, look_up(l, power, number));
  Value* near = l.b.CreateFAdd(l.fma(sum, rest, rest), look_up(l, 0, number));
  // 1 itself: a last place less, times a large number, would be a large number.
  return l.b.CreateSelect(l.b.CreateFCmpOGT(size, l.f(kLast)), l.f(1.0), near);
}

}  // namespace firesteel::cpu
