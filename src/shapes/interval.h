// Ranges of sizes, with ends that may be missing. Arithmetic saturates: a bound past 64 bits is no bound.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace firesteel {

// INT64_MIN below and INT64_MAX above stand for "no bound"; an empty range (low > high) is a contradiction.
struct Interval {
  static constexpr int64_t kNoLow = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNoHigh = std::numeric_limits<int64_t>::max();

  int64_t low = kNoLow;
  int64_t high = kNoHigh;

  static Interval of(int64_t number) { return {number, number}; }
  // Rounded outwards, so what is out of reach only loosens the range.
  static Interval saturated(__int128 low, __int128 high) {
    auto reach = [](__int128 value, int64_t least, int64_t most) {
      return static_cast<int64_t>(std::clamp<__int128>(value, least, most));
    };
    return {reach(low, kNoLow, kNoHigh - 1), reach(high, kNoLow + 1, kNoHigh)};
  }

  bool has_low() const { return low != kNoLow; }
  bool has_high() const { return high != kNoHigh; }
  bool empty() const { return low > high; }
  bool is_number() const { return low == high && has_low() && has_high(); }
  bool contains(int64_t number) const { return low <= number && number <= high; }

  Interval meet(const Interval& other) const { return {std::max(low, other.low), std::min(high, other.high)}; }
  Interval join(const Interval& other) const { return {std::min(low, other.low), std::max(high, other.high)}; }
  Interval negated() const {
    Interval result = saturated(-static_cast<__int128>(high), -static_cast<__int128>(low));
    if (!has_high()) result.low = kNoLow;
    return result;
  }

  friend bool operator==(const Interval&, const Interval&) = default;
};

// The ends are widened for arithmetic: "no bound" lies far outside 64 bits and stays there.
namespace interval_detail {
constexpr __int128 kInfinite = static_cast<__int128>(1) << 100;

inline __int128 low_of(const Interval& a) { return a.has_low() ? static_cast<__int128>(a.low) : -kInfinite; }
inline __int128 high_of(const Interval& a) { return a.has_high() ? static_cast<__int128>(a.high) : kInfinite; }

inline __int128 product(__int128 a, __int128 b) {
  if (a == 0 || b == 0) return 0;  // an end that is missing is still a number: nothing times it is nothing
  __int128 result;
  bool overflows = __builtin_mul_overflow(a, b, &result);
  if (!overflows && result <= kInfinite && result >= -kInfinite) return result;
  return (a < 0) == (b < 0) ? kInfinite : -kInfinite;
}

inline __int128 quotient(__int128 a, __int128 b) {
  __int128 result = a / b;
  return (a % b != 0 && (a % b < 0) != (b < 0)) ? result - 1 : result;
}
}  // namespace interval_detail

inline Interval operator+(const Interval& a, const Interval& b) {
  using namespace interval_detail;
  return Interval::saturated(a.has_low() && b.has_low() ? low_of(a) + low_of(b) : -kInfinite,
                             a.has_high() && b.has_high() ? high_of(a) + high_of(b) : kInfinite);
}

inline Interval operator*(const Interval& a, const Interval& b) {
  using namespace interval_detail;
  __int128 corners[] = {product(low_of(a), low_of(b)), product(low_of(a), high_of(b)), product(high_of(a), low_of(b)),
                        product(high_of(a), high_of(b))};
  auto [least, most] = std::minmax_element(std::begin(corners), std::end(corners));
  return Interval::saturated(*least, *most);
}

// Python's floor division, for a divisor that cannot be zero; otherwise nothing is known.
inline Interval floor_div(const Interval& a, const Interval& b) {
  using namespace interval_detail;
  if (b.contains(0)) return {};
  // A divisor of either sign does not exclude zero, so all of b lies on one side.
  __int128 corners[] = {quotient(low_of(a), low_of(b)), quotient(low_of(a), high_of(b)),
                        quotient(high_of(a), low_of(b)), quotient(high_of(a), high_of(b))};
  auto [least, most] = std::minmax_element(std::begin(corners), std::end(corners));
  Interval result = Interval::saturated(*least, *most);
  // A missing end stays missing, however large the divisor.
  bool falls = b.low < 0;
  if (falls ? !a.has_high() : !a.has_low()) result.low = Interval::kNoLow;
  if (falls ? !a.has_low() : !a.has_high()) result.high = Interval::kNoHigh;
  return result;
}

// Python's remainder takes the divisor's sign.
inline Interval floor_mod(const Interval& a, const Interval& b) {
  if (b.contains(0)) return {};
  if (b.low > 0) {
    if (a.low >= 0 && a.has_high() && a.high < b.low) return a;
    Interval rest{0, b.has_high() ? b.high - 1 : Interval::kNoHigh};
    if (a.low >= 0) rest.high = std::min(rest.high, a.high);  // no remainder exceeds what is divided
    return rest;
  }
  Interval rest{b.has_low() ? b.low + 1 : Interval::kNoLow, 0};
  if (a.high <= 0) rest.low = std::max(rest.low, a.low);
  return rest;
}

}  // namespace firesteel
