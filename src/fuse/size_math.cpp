// Exact arithmetic by polynomials, which multiply everything out.
#include "fuse/size_math.h"

#include <limits>

#include "shapes/polynomial.h"

namespace firesteel {
namespace {

constexpr int64_t kMiddling = 97;  // no power of two, no size that models like

}  // namespace

bool surely_equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_number() && b.is_number()) return false;
  const Polynomial left(a), right(b);
  return left.ok() && right.ok() && left == right;
}

std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  if (a.is_number() && b.is_number()) {
    if (a.number() <= 0 || b.number() <= 0 || a.number() % b.number() != 0) return std::nullopt;
    return a.number() / b.number();
  }
  if (is_number(b, 1)) return a;
  if (is_number(a, 0) || is_number(b, 0)) return std::nullopt;
  if (a == b) return Dim(1);
  const Polynomial dividend(a), divisor(b);
  if (!dividend.ok() || !divisor.ok()) return std::nullopt;
  const std::optional<Polynomial> quotient = dividend.divided(divisor);
  if (!quotient || !quotient->ok()) return std::nullopt;
  return quotient->dim();
}

Dim product(std::span<const Dim> dims) {
  Dim result = 1;
  for (const Dim& dim : dims) result = result * dim;
  return result;
}

int64_t estimate(const Dim& dim) {
  const auto value = dim.evaluate([](std::string_view) -> std::optional<int64_t> { return kMiddling; });
  return value.value_or(std::numeric_limits<int64_t>::max() >> 16);  // leaves room for a factor
}

}  // namespace firesteel
