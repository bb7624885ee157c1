// Reasoner: one expression written with less, by what the facts say of its parts.
#include "shapes/reasoner.h"

namespace firesteel {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) {  // b > 0
  return a / b - (a % b < 0 ? 1 : 0);
}

int64_t floor_rest(int64_t a, int64_t b) {  // b > 0
  return a % b + (a % b < 0 ? b : 0);
}

// a = divisor * multiple + rest, term by term; the constant of `rest` lies below the divisor.
struct Split {
  Polynomial multiple, rest;

  Split(const Polynomial& a, int64_t divisor) {
    for (const auto& [key, term] : a.terms()) {
      multiple.add({key.empty() ? floor_quotient(term.factor, divisor) : term.factor / divisor, term.atoms});
      rest.add({key.empty() ? floor_rest(term.factor, divisor) : term.factor % divisor, term.atoms});
    }
  }
  Split(const Polynomial& a, const Term& divisor) {
    for (const auto& [key, term] : a.terms()) {
      auto atoms = term.atoms_without(divisor.atoms);
      int64_t times = atoms && divisor.factor != -1 ? term.factor / divisor.factor : 0;
      if (times != 0) multiple.add({times, std::move(*atoms)});
      rest.add({term.factor - times * divisor.factor, term.atoms});
    }
  }
};

// A single atom of this operation, plus a number.
const DimExpr* lone_atom(const Polynomial& polynomial, DimOp op) {
  if (polynomial.terms().empty()) return nullptr;
  const Term& term = polynomial.terms().rbegin()->second;
  size_t size = polynomial.terms().size();
  if (size > 2 || (size == 2 && !polynomial.terms().begin()->first.empty())) return nullptr;
  if (term.factor != 1 || term.atoms.size() != 1) return nullptr;
  const DimExpr* expr = term.atoms[0].dim.expr();
  return expr != nullptr && expr->op == op ? expr : nullptr;
}

// What both are multiples of: a number and atoms.
Term common_factor(const Polynomial& a, const Polynomial& b) {
  Term result;
  result.factor = common_divisor(common_divisor(a.content(), a.constant()), common_divisor(b.content(), b.constant()));
  Polynomial both = Polynomial(Term{1, a.common_atoms()}) + Polynomial(Term{1, b.common_atoms()});
  result.atoms = both.common_atoms();
  return result;
}

}  // namespace

Polynomial Reasoner::simplified(const Dim& dim) {
  Polynomial result;
  if (spend(1)) result = simplified_symbolic(dim);
  // What does not fit stays one opaque atom.
  if (steps_ <= 0 || !result.ok())
    return dim.is_number() ? Polynomial(dim.number()) : Polynomial(Term{1, {{dim.str(), dim}}});
  return result;
}

Polynomial Reasoner::simplified_symbolic(const Dim& dim) {
  if (dim.is_number()) return dim.number();
  const DimExpr& expr = *dim.expr();
  if (expr.op == DimOp::Symbol) {
    auto known = facts_.replacements.find(expr.name);
    return Polynomial(known == facts_.replacements.end() ? dim : known->second.second);
  }
  Polynomial lhs = simplified(expr.lhs);
  Polynomial rhs = simplified(expr.rhs);
  switch (expr.op) {
    case DimOp::Add:
      return recombined(lhs + rhs);
    case DimOp::Mul:
      return recombined(lhs * rhs);
    case DimOp::FloorDiv:
      return quotient(std::move(lhs), rhs);
    case DimOp::Mod:
      return remainder(std::move(lhs), rhs);
    default:
      return extreme(expr.op, lhs, rhs);
  }
}

Polynomial Reasoner::atom(DimOp op, const Polynomial& lhs, const Polynomial& rhs) {
  Dim dim = Dim::make(op, lhs.dim(), rhs.dim());
  if (dim.is_number()) return dim.number();
  std::string text = dim.str();
  auto known = facts_.replacements.find(text);
  if (known != facts_.replacements.end()) return Polynomial(known->second.second);
  return Polynomial(Term{1, {{std::move(text), std::move(dim)}}});
}

Polynomial Reasoner::quotient(Polynomial a, const Polynomial& b) {
  if (b.is_number()) {
    if (b.constant() == 0 || b.constant() == INT64_MIN) return atom(DimOp::FloorDiv, a, b);
    if (b.constant() < 0) return quotient_by_number(a * -1, -b.constant());
    return quotient_by_number(std::move(a), b.constant());
  }
  if (!never_zero(b)) return atom(DimOp::FloorDiv, a, b);
  if (auto exact = a.divided(b)) return *exact;
  Polynomial whole;
  if (b.terms().size() == 1) {
    Split split(a, b.terms().begin()->second);
    whole = std::move(split.multiple);
    a = std::move(split.rest);
    if (a.terms().empty()) return whole;
  }
  Term common = common_factor(a, b);
  if (common.factor > 1 || !common.atoms.empty()) {
    auto less_a = a.divided(common);
    auto less_b = b.divided(common);
    if (less_a && less_b) return whole + quotient(std::move(*less_a), *less_b);
  }
  if (at_most_zero(a * -1) && at_most_zero(a - b + 1)) return whole;  // 0 <= a < b
  return whole + atom(DimOp::FloorDiv, a, b);
}

Polynomial Reasoner::quotient_by_number(Polynomial a, int64_t divisor) {
  if (!a.ok() || !spend(1)) return a;  // simplified() drops it
  if (divisor == 1) return a;
  Split split(a, divisor);
  Polynomial& rest = split.rest;
  if (!rest.ok() || !split.multiple.ok()) return rest + split.multiple;
  if (rest.is_number()) return split.multiple;
  int64_t common = common_divisor(rest.content(), divisor);
  if (common > 1) {
    int64_t constant = rest.constant();
    auto terms = (rest - constant).divided(Term{common, {}});
    return split.multiple + quotient_by_number(*terms + constant / common, divisor / common);
  }
  Interval bounds = range(rest);
  if (bounds.has_low() && bounds.has_high()) {
    int64_t least = floor_quotient(bounds.low, divisor);
    if (least == floor_quotient(bounds.high, divisor)) return split.multiple + least;
  }
  // (x // m + c) // n is (x + c*m) // (m*n).
  if (const DimExpr* inner = lone_atom(rest, DimOp::FloorDiv)) {
    int64_t both;
    if (inner->rhs.is_number() && inner->rhs.number() > 0 &&
        !__builtin_mul_overflow(inner->rhs.number(), divisor, &both)) {
      Polynomial moved = Polynomial(inner->lhs) + Polynomial(rest.constant()) * inner->rhs.number();
      if (moved.ok()) return split.multiple + quotient_by_number(std::move(moved), both);
    }
  }
  return split.multiple + atom(DimOp::FloorDiv, rest, divisor);
}

Polynomial Reasoner::remainder(Polynomial a, const Polynomial& b) {
  if (b.is_number()) {
    if (b.constant() == 0 || b.constant() == INT64_MIN) return atom(DimOp::Mod, a, b);
    // The remainder takes the divisor's sign.
    if (b.constant() < 0) return remainder_by_number(a * -1, -b.constant()) * -1;
    return remainder_by_number(std::move(a), b.constant());
  }
  if (!never_zero(b)) return atom(DimOp::Mod, a, b);
  if (a.divided(b)) return 0;
  if (b.terms().size() == 1) a = Split(a, b.terms().begin()->second).rest;
  if (a.terms().empty()) return 0;
  Term common = common_factor(a, b);
  if (common.factor > 1 || !common.atoms.empty()) {
    auto less_a = a.divided(common);
    auto less_b = b.divided(common);
    if (less_a && less_b) return remainder(std::move(*less_a), *less_b) * Polynomial(common);
  }
  if (at_most_zero(a * -1) && at_most_zero(a - b + 1)) return a;  // 0 <= a < b
  return atom(DimOp::Mod, a, b);
}

Polynomial Reasoner::remainder_by_number(Polynomial a, int64_t divisor) {
  if (!a.ok() || !spend(1)) return a;  // simplified() drops it
  if (divisor == 1) return 0;
  // f * (x % m) is f * x, up to a multiple of f*m.
  Polynomial opened;
  for (const auto& [key, term] : a.terms()) {
    const DimExpr* expr = term.atoms.size() == 1 ? term.atoms[0].dim.expr() : nullptr;
    int64_t step = 0;
    bool opens = expr != nullptr && expr->op == DimOp::Mod && expr->rhs.is_number() && expr->rhs.number() != 0 &&
                 !__builtin_mul_overflow(expr->rhs.number(), term.factor, &step) && step % divisor == 0;
    opened += opens ? Polynomial(expr->lhs) * term.factor : Polynomial(term);
  }
  Polynomial rest = Split(opened.ok() ? opened : a, divisor).rest;
  if (!rest.ok()) return rest;
  Congruence known = congruence(rest);
  if (known.modulus % divisor == 0) return floor_rest(known.residue, divisor);
  int64_t common = common_divisor(rest.content(), divisor);
  if (common > 1) {
    int64_t constant = rest.constant();
    auto terms = (rest - constant).divided(Term{common, {}});
    return remainder_by_number(*terms + constant / common, divisor / common) * common + constant % common;
  }
  Interval bounds = range(rest);
  if (bounds.has_low() && bounds.has_high()) {
    int64_t least = floor_quotient(bounds.low, divisor);
    if (least == floor_quotient(bounds.high, divisor)) return rest - Polynomial(least) * divisor;
  }
  return atom(DimOp::Mod, rest, divisor);
}

Polynomial Reasoner::extreme(DimOp op, const Polynomial& a, const Polynomial& b) {
  if (at_most_zero(a - b)) return op == DimOp::Min ? a : b;
  if (at_most_zero(b - a)) return op == DimOp::Min ? b : a;
  return atom(op, a, b);
}

// b * (x // b) is x - r where the remainder r is a number, or where it is added: b * (x // b) + x % b.
Polynomial Reasoner::recombined(Polynomial polynomial) {
  if (!polynomial.ok() || !spend(polynomial.terms().size())) return polynomial;
  for (const Atom& atom : polynomial.atoms()) {
    const DimExpr* expr = atom.dim.expr();
    if (expr == nullptr || expr->op != DimOp::FloorDiv) continue;
    Polynomial divisor(expr->rhs);
    if (divisor.terms().size() != 1 || !never_zero(divisor)) continue;
    Polynomial rest = remainder(Polynomial(expr->lhs), divisor);
    auto taken = Polynomial(Term{1, {atom}}) * divisor;
    if (!rest.ok() || !taken.ok()) continue;
    for (const auto& [key, term] : polynomial.terms()) {
      auto times = Polynomial(term).divided(taken);
      if (!times) continue;
      // The remainder must vanish from the sum, or be a number: else one atom is only written as another.
      Polynomial moved = polynomial + *times * (Polynomial(expr->lhs) - rest - taken);
      if (!moved.ok()) continue;
      if (rest.is_number() || moved.terms().size() < polynomial.terms().size()) {
        return recombined(std::move(moved));
      }
    }
  }
  return polynomial;
}

}  // namespace firesteel
