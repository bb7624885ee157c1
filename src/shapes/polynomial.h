// Dims as polynomials: sums of products multiplied out, so that arithmetic on sizes is arithmetic on numbers.
//
// Rules: an atom is what a polynomial does not look into (a symbol, a floor division, a remainder, min, max). What does
// not fit (64 bits, kMostTerms) poisons the result: ok() is false and nothing else of it may be used.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/dim.h"

namespace firesteel {

struct Atom {
  std::string text;  // orders atoms and tells them apart
  Dim dim;
};

// The greatest number that divides both; 1 where that is past 64 bits.
int64_t common_divisor(int64_t a, int64_t b);

// One product of atoms (ordered, with repetitions) times a number. Without atoms: the constant.
struct Term {
  int64_t factor = 0;
  std::vector<Atom> atoms;

  std::string key() const;
  // What remains of the atoms without those of `divisor`; nothing where one of these is not among them.
  std::optional<std::vector<Atom>> atoms_without(const std::vector<Atom>& divisor) const;
};

class FIRESTEEL_API Polynomial {
 public:
  static constexpr size_t kMostTerms = 64;

  Polynomial() = default;
  Polynomial(int64_t number) { add({number, {}}); }  // NOLINT: a number is a polynomial
  explicit Polynomial(const Dim& dim) { take(dim); }
  explicit Polynomial(Term term) { add(std::move(term)); }

  bool ok() const { return ok_; }
  const std::map<std::string, Term>& terms() const { return terms_; }  // the constant, where there is one, is first
  int64_t constant() const;
  bool is_number() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }
  // The greatest number that divides every factor, without the constant's; 0 for a number.
  int64_t content() const;
  // The atoms all terms have in common; none for a number.
  std::vector<Atom> common_atoms() const;
  // Every atom, once.
  std::vector<Atom> atoms() const;

  void add(Term term);
  Polynomial& operator+=(const Polynomial& other);
  Polynomial& operator-=(const Polynomial& other) { return *this += other * -1; }
  friend Polynomial operator+(Polynomial a, const Polynomial& b) { return a += b; }
  friend Polynomial operator-(Polynomial a, const Polynomial& b) { return a -= b; }
  FIRESTEEL_API friend Polynomial operator*(const Polynomial& a, const Polynomial& b);

  // Every term divided by `divisor`, if each can be without a rest.
  std::optional<Polynomial> divided(const Term& divisor) const;
  // The polynomial that gives this one when multiplied by `divisor`, if there is one.
  std::optional<Polynomial> divided(const Polynomial& divisor) const;

  Dim dim() const;  // only where ok()
  friend bool operator==(const Polynomial& a, const Polynomial& b);

 private:
  void take(const Dim& dim);
  const Term& leading() const;

  std::map<std::string, Term> terms_;
  bool ok_ = true;
};

}  // namespace firesteel
