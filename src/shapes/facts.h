// What is known of the symbols of one trace, and what follows from it.
//
// Rules: every answer is a proof or nothing. Answers hold for all values of the symbols that meet the facts and give
// every expression a value; expressions count as whole numbers, so results past 64 bits (sizes stay below 2^62) are not
// considered. No question takes longer than a fixed budget: what is left open then is answered as not known.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shapes/interval.h"
#include "shapes/polynomial.h"
#include "shapes/relation.h"

namespace firesteel {

// The number is `residue` more than a multiple of `modulus`; 1 says nothing, 0 that it is the residue.
struct Congruence {
  int64_t modulus = 1;
  int64_t residue = 0;
};

// Facts taken apart. Atoms are written with the replacements applied, and found by their text.
struct FactBase {
  template <class T>
  using ByAtom = std::map<std::string, std::pair<Dim, T>>;

  ByAtom<Interval> bounds;
  ByAtom<Congruence> residues;           // of sums too, without their constant
  ByAtom<Dim> replacements;              // what equalities say: s1 is s0 + 1, s0 % 8 is 0
  std::vector<Polynomial> at_most_zero;  // inequalities over more than one atom
  std::vector<Relation> held;            // what has no other form: `!=`, `or`
  bool contradictory = false;
};

using Witness = std::map<std::string, int64_t, std::less<>>;  // a value for each symbol

class FIRESTEEL_API Facts {
 public:
  static constexpr int kSteps = 20000;  // of a question; one handles a term of a polynomial. Some milliseconds

  Facts() = default;
  // Values from `least` to `most`; INT64_MAX says that there is no bound above, INT64_MIN below.
  void add_symbol(const std::string& name, int64_t least, int64_t most);
  // Holds from now on, as a guard will see to it.
  void assume(const Relation& relation);
  // The facts exclude each other: no values meet them all. What is decided then means nothing.
  bool contradictory() const { return base_.contradictory; }

  // From now on a question takes no more than so many steps, and the solver is not asked.
  void limit(int steps) { steps_ = steps; }

  // True or false where the facts prove it.
  std::optional<bool> decide(const Relation& relation) const;
  // The same value, written with less.
  Dim simplify(const Dim& dim) const;
  // The least and the greatest value it can have, as far as bounds are known.
  std::pair<std::optional<int64_t>, std::optional<int64_t>> range(const Dim& dim) const;

 private:
  void forget_open_questions();
  std::optional<bool> decide_by_solver(const Relation& relation) const;
  std::optional<bool> decide_by_ranges(const Relation& relation) const;
  void assume_comparison(const Relation& relation);
  void assume_at_most_zero(const Polynomial& polynomial);
  void assume_zero(const Polynomial& polynomial);
  void assume_bounds(const Atom& atom, const Interval& interval);
  void replace(const Atom& atom, const Dim& replacement);
  void propagate();

  FactBase base_;
  int steps_ = kSteps;
  int nested_ = 0;  // replacements within replacements

  // A trace asks the same many times over. More facts only add answers: what is proved stays, what is open is asked
  // anew when a fact comes in. As all of a trace, one thread's own.
  mutable std::unordered_map<Relation, bool, RelationHash> proved_;
  mutable std::unordered_set<Relation, RelationHash> open_;
  mutable std::optional<std::vector<Witness>> witnesses_;
};

}  // namespace firesteel
