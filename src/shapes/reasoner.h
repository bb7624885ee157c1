// One question put to the facts: ranges, simplification and proofs within one budget.
#pragma once

#include <map>
#include <string>

#include "shapes/facts.h"

namespace firesteel {

class Reasoner {
 public:
  Reasoner(const FactBase& facts, int steps) : facts_(facts), steps_(steps) {}

  // With replacements, and divisions, remainders, min and max as far as facts decide them.
  Polynomial simplified(const Dim& dim);
  Interval range(const Polynomial& polynomial);
  Congruence congruence(const Polynomial& polynomial);
  bool at_most_zero(const Polynomial& polynomial, int depth = kDepth);
  bool never_zero(const Polynomial& polynomial);
  // Without the factors all terms share, where these are positive (or only never zero, if the sign does not matter).
  Polynomial without_common_atoms(const Polynomial& polynomial, bool sign_matters);

 private:
  static constexpr int kDepth = 3;  // facts combined in one proof

  bool spend(size_t steps) { return (steps_ -= static_cast<int>(steps)) > 0; }
  Polynomial simplified_symbolic(const Dim& dim);
  Polynomial atom(DimOp op, const Polynomial& lhs, const Polynomial& rhs);
  Polynomial quotient(Polynomial a, const Polynomial& b);
  Polynomial quotient_by_number(Polynomial a, int64_t divisor);
  Polynomial remainder(Polynomial a, const Polynomial& b);
  Polynomial remainder_by_number(Polynomial a, int64_t divisor);
  Polynomial extreme(DimOp op, const Polynomial& a, const Polynomial& b);
  Polynomial recombined(Polynomial polynomial);
  std::vector<Polynomial> definitions(const Polynomial& polynomial);
  Interval range_of(const Atom& atom);
  Interval range_by_offsets(const Polynomial& polynomial);
  Congruence congruence_of(const Atom& atom);

  const FactBase& facts_;
  int steps_;
  std::map<std::string, Interval> ranges_;
};

}  // namespace firesteel
