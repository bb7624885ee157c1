// Reasoner: ranges and residues, and the proofs that rest on them.
#include <algorithm>

#include "shapes/reasoner.h"

namespace firesteel {
namespace {

constexpr __int128 kWide = static_cast<__int128>(1) << 62;

__int128 wide_gcd(__int128 a, __int128 b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    __int128 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

Congruence congruent(__int128 modulus, __int128 residue) {
  if (modulus < 0) modulus = -modulus;
  if (modulus != 0) residue = (residue % modulus + modulus) % modulus;
  if (modulus >= kWide || residue >= kWide || residue <= -kWide) return {1, 0};
  return {static_cast<int64_t>(modulus), static_cast<int64_t>(residue)};
}

Congruence operator+(const Congruence& a, const Congruence& b) {
  return congruent(wide_gcd(a.modulus, b.modulus), static_cast<__int128>(a.residue) + b.residue);
}

Congruence operator*(const Congruence& a, const Congruence& b) {
  __int128 modulus =
      wide_gcd(static_cast<__int128>(a.modulus) * b.modulus, static_cast<__int128>(a.modulus) * b.residue);
  return congruent(wide_gcd(modulus, static_cast<__int128>(b.modulus) * a.residue),
                   static_cast<__int128>(a.residue) * b.residue);
}

}  // namespace

Interval Reasoner::range_of(const Atom& atom) {
  auto memo = ranges_.find(atom.text);
  if (memo != ranges_.end()) return memo->second;
  Interval result;
  if (spend(1) && !atom.dim.is_number() && atom.dim.expr()->op != DimOp::Symbol) {
    Interval lhs = range(Polynomial(atom.dim.expr()->lhs));
    Interval rhs = range(Polynomial(atom.dim.expr()->rhs));
    switch (atom.dim.expr()->op) {
      case DimOp::Add:
        result = lhs + rhs;
        break;
      case DimOp::Mul:
        result = lhs * rhs;
        break;
      case DimOp::FloorDiv:
        result = floor_div(lhs, rhs);
        break;
      case DimOp::Mod:
        result = floor_mod(lhs, rhs);
        break;
      case DimOp::Min:
        result = {std::min(lhs.low, rhs.low), std::min(lhs.high, rhs.high)};
        break;
      case DimOp::Max:
        result = {std::max(lhs.low, rhs.low), std::max(lhs.high, rhs.high)};
        break;
      case DimOp::Symbol:
        break;
    }
  }
  auto known = facts_.bounds.find(atom.text);
  if (known != facts_.bounds.end()) result = result.meet(known->second.second);
  ranges_.emplace(atom.text, result);
  return result;
}

Interval Reasoner::range(const Polynomial& polynomial) {
  if (!polynomial.ok() || !spend(1 + polynomial.terms().size())) return {};
  Interval sum = Interval::of(0);
  for (const auto& [key, term] : polynomial.terms()) {
    Interval product = Interval::of(term.factor);
    for (const Atom& atom : term.atoms) product = product * range_of(atom);
    sum = sum + product;
  }
  if (polynomial.terms().size() < 2) return sum;
  return sum.meet(range_by_offsets(polynomial));
}

// Every atom is its bound plus (or minus) an offset of at least 0. Multiplied out, the terms cancel that plain
// intervals count twice: s0*s1 - s1 for s0 >= 2, s1 >= 1 is (2+a)*(1+b) - (1+b) = 1 + a + b + a*b.
Interval Reasoner::range_by_offsets(const Polynomial& polynomial) {
  std::map<std::string, Interval> offsets;
  Polynomial shifted;
  for (const auto& [key, term] : polynomial.terms()) {
    Polynomial product(term.factor);
    for (const Atom& atom : term.atoms) {
      Interval bounds = range_of(atom);
      Polynomial offset(Term{1, {atom}});
      Interval span = bounds;
      if (bounds.has_low()) {
        offset += bounds.low;
        span = bounds + Interval::of(bounds.low).negated();
      } else if (bounds.has_high()) {
        offset = Polynomial(bounds.high) - offset;
        span = {0, Interval::kNoHigh};
      }
      offsets[atom.text] = span;
      product = product * offset;
      if (!product.ok() || !spend(product.terms().size())) return {};
    }
    shifted += product;
  }
  if (!shifted.ok()) return {};
  Interval sum = Interval::of(0);
  for (const auto& [key, term] : shifted.terms()) {
    Interval product = Interval::of(term.factor);
    for (const Atom& atom : term.atoms) product = product * offsets.at(atom.text);
    sum = sum + product;
  }
  return sum;
}

Congruence Reasoner::congruence_of(const Atom& atom) {
  auto known = facts_.residues.find(atom.text);
  return known == facts_.residues.end() ? Congruence{} : known->second.second;
}

Congruence Reasoner::congruence(const Polynomial& polynomial) {
  if (!polynomial.ok()) return {};
  Congruence sum{0, 0};
  for (const auto& [key, term] : polynomial.terms()) {
    Congruence product{0, term.factor};
    for (const Atom& atom : term.atoms) product = product * congruence_of(atom);
    sum = sum + product;
  }
  if (facts_.residues.empty() || polynomial.is_number()) return sum;
  // What is known of this very sum.
  Polynomial terms = polynomial - Polynomial(polynomial.constant());
  auto known = terms.ok() ? facts_.residues.find(terms.dim().str()) : facts_.residues.end();
  if (known == facts_.residues.end()) return sum;
  Congruence of_sum = known->second.second + Congruence{0, polynomial.constant()};
  return of_sum.modulus > sum.modulus && sum.modulus != 0 ? of_sum : sum;
}

bool Reasoner::never_zero(const Polynomial& polynomial) {
  if (!polynomial.ok()) return false;
  if (!range(polynomial).contains(0)) return true;
  Congruence known = congruence(polynomial);
  if (known.modulus == 0 ? known.residue != 0 : known.residue % known.modulus != 0) return true;
  for (const Relation& relation : facts_.held) {
    if (relation.kind() != RelationKind::Ne) continue;
    if (relation == Relation::ne(polynomial.dim(), 0)) return true;
  }
  if (polynomial.terms().size() != 1) return false;
  const Term& term = polynomial.terms().begin()->second;
  if (term.atoms.size() < 2) return false;
  for (const Atom& atom : term.atoms) {
    if (!never_zero(Polynomial(Term{1, {atom}}))) return false;
  }
  return true;
}

Polynomial Reasoner::without_common_atoms(const Polynomial& polynomial, bool sign_matters) {
  Polynomial result = polynomial;
  for (const Atom& atom : polynomial.common_atoms()) {
    Term factor{1, {atom}};
    bool drop = sign_matters ? range_of(atom).low > 0 : never_zero(Polynomial(factor));
    if (!drop) continue;
    if (auto divided = result.divided(factor)) result = std::move(*divided);
  }
  return result;
}

// What holds of atoms by their meaning, as polynomials that are at most zero.
std::vector<Polynomial> Reasoner::definitions(const Polynomial& polynomial) {
  std::vector<Polynomial> result;
  for (const Atom& atom : polynomial.atoms()) {
    const DimExpr* expr = atom.dim.expr();
    if (expr == nullptr || expr->op == DimOp::Symbol) continue;
    Polynomial self(Term{1, {atom}});
    Polynomial lhs(expr->lhs);
    Polynomial rhs(expr->rhs);
    bool positive_divisor = (expr->op == DimOp::FloorDiv || expr->op == DimOp::Mod) && range(rhs).low > 0;
    if (expr->op == DimOp::FloorDiv && positive_divisor) {
      result.push_back(self * rhs - lhs);
      result.push_back(lhs - self * rhs - rhs + 1);
    } else if (expr->op == DimOp::Mod && positive_divisor) {
      result.push_back(self - rhs + 1);
      if (range(lhs).low >= 0) result.push_back(self - lhs);
    } else if (expr->op == DimOp::Min) {
      result.push_back(self - lhs);
      result.push_back(self - rhs);
    } else if (expr->op == DimOp::Max) {
      result.push_back(lhs - self);
      result.push_back(rhs - self);
    }
  }
  return result;
}

// A fact q <= 0 is worth a multiple of itself: with q scaled so that it cancels a growing term of the polynomial p,
// p - q <= 0 proves p <= 0.
bool Reasoner::at_most_zero(const Polynomial& polynomial, int depth) {
  if (!polynomial.ok() || !spend(1 + polynomial.terms().size())) return false;
  if (range(polynomial).high <= 0) return true;
  if (depth == 0) return false;
  std::vector<Polynomial> facts = definitions(polynomial);
  facts.insert(facts.end(), facts_.at_most_zero.begin(), facts_.at_most_zero.end());
  for (const Polynomial& fact : facts) {
    if (!fact.ok()) continue;
    for (const auto& [key, term] : polynomial.terms()) {
      if (term.factor <= 0 || key.empty()) continue;
      for (const auto& [fact_key, fact_term] : fact.terms()) {
        if (fact_term.factor <= 0 || fact_key.empty()) continue;
        if (!spend(1)) return false;
        auto cofactor = term.atoms_without(fact_term.atoms);
        if (!cofactor) continue;
        bool nonnegative =
            std::all_of(cofactor->begin(), cofactor->end(), [&](auto& a) { return range_of(a).low >= 0; });
        if (!nonnegative) continue;
        int64_t common = common_divisor(term.factor, fact_term.factor);
        Polynomial rest = polynomial * (fact_term.factor / common) -
                          fact * Polynomial(Term{term.factor / common, std::move(*cofactor)});
        if (at_most_zero(rest, depth - 1)) return true;
      }
    }
  }
  return false;
}

}  // namespace firesteel
