// Linearizer: from relations and facts to rows. Leaving a fact out is always sound: it can only lose a proof.
#include "shapes/linearize.h"

#include <algorithm>

namespace firesteel {
namespace {

// Numbers near the end of 64 bits say nothing about sizes and make the solver's numbers long.
constexpr int64_t kLargest = int64_t{1} << 48;

bool is_telling(int64_t bound) { return bound > -kLargest && bound < kLargest; }

Polynomial single(const Atom& atom) { return Polynomial(Term{1, {atom}}); }

}  // namespace

std::optional<LinearProblem> Linearizer::problem(const Relation& relation) {
  if (!take(relation)) return std::nullopt;
  add_facts();
  return std::move(problem_);
}

// Conjunctions become rows; a disjunction becomes a choice.
bool Linearizer::take(const Relation& relation) {
  if (relation.kind() == RelationKind::And) {
    return std::all_of(relation.operands().begin(), relation.operands().end(), [&](auto& one) { return take(one); });
  }
  auto found = alternatives(relation);
  if (!found) return false;
  if (found->size() != 1) return take_choice(std::move(*found));
  problem_.rows.insert(problem_.rows.end(), found->front().begin(), found->front().end());
  return true;
}

bool Linearizer::take_choice(std::vector<LinearProblem::Rows> alternatives) {
  if (problem_.choices.size() >= kMostChoices) return false;
  problem_.choices.push_back(std::move(alternatives));
  return true;
}

std::optional<std::vector<LinearProblem::Rows>> Linearizer::alternatives(const Relation& relation) {
  std::vector<LinearProblem::Rows> result;
  switch (relation.kind()) {
    case RelationKind::Known:
      if (relation.value()) result.emplace_back();  // no rows: always met
      return result;
    case RelationKind::Ne: {
      for (const Relation& side :
           {Relation::lt(relation.lhs(), relation.rhs()), Relation::lt(relation.rhs(), relation.lhs())}) {
        auto one = alternatives(side);
        if (!one) return std::nullopt;
        result.insert(result.end(), one->begin(), one->end());
      }
      return result;
    }
    case RelationKind::Or:
      for (const Relation& operand : relation.operands()) {
        auto one = alternatives(operand);
        if (!one) return std::nullopt;
        result.insert(result.end(), one->begin(), one->end());
      }
      return result;
    case RelationKind::And: {
      result.emplace_back();
      for (const Relation& operand : relation.operands()) {
        auto one = alternatives(operand);
        if (!one || one->size() != 1) return std::nullopt;
        result[0].insert(result[0].end(), one->front().begin(), one->front().end());
      }
      return result;
    }
    default: {
      auto one = rows(relation);
      if (!one) return std::nullopt;
      result.push_back(std::move(*one));
      return result;
    }
  }
}

std::optional<LinearProblem::Rows> Linearizer::rows(const Relation& comparison) {
  Polynomial difference = reasoner_.simplified(comparison.rhs()) - reasoner_.simplified(comparison.lhs());
  if (!difference.ok()) return std::nullopt;
  difference = reasoner_.without_common_atoms(difference, comparison.kind() != RelationKind::Eq);
  if (comparison.kind() == RelationKind::Lt) difference -= 1;
  if (!difference.ok()) return std::nullopt;
  return LinearProblem::Rows{row(difference, comparison.kind() == RelationKind::Eq)};
}

LinearRow Linearizer::row(const Polynomial& polynomial, bool is_zero) {
  LinearRow result;
  result.constant = polynomial.constant();
  result.is_zero = is_zero;
  for (const auto& [key, term] : polynomial.terms()) {
    if (!key.empty()) result.terms.emplace_back(variable(term.atoms), term.factor);
  }
  return result;
}

void Linearizer::at_least_zero(const Polynomial& polynomial) {
  if (polynomial.ok() && !polynomial.is_number()) problem_.rows.push_back(row(polynomial));
}

int Linearizer::variable(const std::vector<Atom>& atoms) {
  auto [entry, is_new] = variables_.try_emplace(Term{1, atoms}.key(), problem_.variables);
  if (is_new) {
    problem_.variables++;
    undefined_.push_back(atoms);
  }
  return entry->second;
}

// What holds of the products and atoms met so far, and the facts that mention them, until nothing new comes up.
void Linearizer::add_facts() {
  std::vector<bool> used(facts_.at_most_zero.size());
  bool found = true;
  while (found && !is_full()) {
    found = false;
    while (!undefined_.empty() && !is_full()) {
      std::vector<Atom> atoms = std::move(undefined_.back());
      undefined_.pop_back();
      define_product(atoms);
      for (const Atom& atom : atoms) {
        if (atoms_.emplace(atom.text, atom).second) define(atom);
      }
    }
    for (size_t i = 0; i < used.size() && !is_full(); i++) {
      const Polynomial& fact = facts_.at_most_zero[i];
      if (used[i] || !knows_one(fact.atoms())) continue;
      used[i] = found = true;
      at_least_zero(fact * -1);
    }
    for (const auto& [text, entry] : facts_.replacements) {
      // `s0 // 2 == s1`: the division is written as s1 everywhere, and its meaning would be lost.
      Atom atom{text, entry.first};
      if (entry.first.expr()->op == DimOp::Symbol || atoms_.contains(text) || is_full()) continue;
      if (!knows_all(Polynomial(entry.first.expr()->lhs).atoms())) continue;
      Polynomial value(entry.second);
      if (!value.ok()) continue;
      problem_.rows.push_back(row(single(atom) - value, true));
      found = true;
    }
  }
  for (const auto& [text, entry] : facts_.residues) {
    Polynomial sum(entry.first);
    if (is_full() || !sum.ok() || !knows_all(sum.atoms())) continue;
    LinearRow of_sum = row(sum - entry.second.residue, true);
    of_sum.terms.emplace_back(problem_.variables++, -entry.second.modulus);
    problem_.rows.push_back(std::move(of_sum));
  }
  for (const Relation& held : facts_.held) {
    // Only where it is about nothing else: a choice doubles the work.
    if (held.kind() != RelationKind::Ne || is_full()) continue;
    Polynomial difference = Polynomial(held.lhs()) - Polynomial(held.rhs());
    if (difference.ok() && knows_all(difference.atoms())) {
      if (auto choice = alternatives(held)) take_choice(std::move(*choice));
    }
  }
}

bool Linearizer::knows_one(const std::vector<Atom>& atoms) const {
  return std::any_of(atoms.begin(), atoms.end(), [&](auto& atom) { return atoms_.contains(atom.text); });
}

bool Linearizer::knows_all(const std::vector<Atom>& atoms) const {
  return std::all_of(atoms.begin(), atoms.end(), [&](auto& atom) { return atoms_.contains(atom.text); });
}

void Linearizer::define(const Atom& atom) {
  Interval bounds = reasoner_.range(single(atom));
  if (bounds.has_low() && is_telling(bounds.low)) at_least_zero(single(atom) - bounds.low);
  if (bounds.has_high() && is_telling(bounds.high)) at_least_zero(Polynomial(bounds.high) - single(atom));
  switch (atom.dim.expr()->op) {
    case DimOp::FloorDiv:
    case DimOp::Mod:
      return define_division(atom);
    case DimOp::Min:
    case DimOp::Max:
      return define_extreme(atom);
    default:
      return;
  }
}

// x = b * (x // b) + x % b, and the remainder is at least 0 and below b.
void Linearizer::define_division(const Atom& atom) {
  const DimExpr& expr = *atom.dim.expr();
  Polynomial divisor(expr.rhs);
  if (!divisor.ok() || reasoner_.range(divisor).low <= 0) return;
  Dim quotient = Dim::make(DimOp::FloorDiv, expr.lhs, expr.rhs);
  Polynomial rest = Polynomial(expr.lhs) - Polynomial(quotient) * divisor;
  if (!rest.ok()) return;
  at_least_zero(rest);
  at_least_zero(divisor - 1 - rest);
  if (expr.op == DimOp::Mod) {
    Polynomial equal = rest - single(atom);
    if (equal.ok()) problem_.rows.push_back(row(equal, true));
  }
}

void Linearizer::define_extreme(const Atom& atom) {
  const DimExpr& expr = *atom.dim.expr();
  int sign = expr.op == DimOp::Min ? 1 : -1;
  Polynomial above_lhs = (Polynomial(expr.lhs) - single(atom)) * sign;
  Polynomial above_rhs = (Polynomial(expr.rhs) - single(atom)) * sign;
  if (!above_lhs.ok() || !above_rhs.ok()) return;
  at_least_zero(above_lhs);
  at_least_zero(above_rhs);
  take_choice({{row(above_lhs, true)}, {row(above_rhs, true)}});
}

// (a - least a) * (b - least b) >= 0: what a product of two is at least.
void Linearizer::define_product(const std::vector<Atom>& atoms) {
  if (atoms.size() < 2) return;
  for (size_t i = 0; i < atoms.size() && !is_full(); i++) {
    if (i > 0 && atoms[i].text == atoms[i - 1].text) continue;
    std::vector<Atom> others = atoms;
    others.erase(others.begin() + i);
    Polynomial one = single(atoms[i]);
    Polynomial rest(Term{1, std::move(others)});
    Interval of_one = reasoner_.range(one);
    Interval of_rest = reasoner_.range(rest);
    if (!of_one.has_low() || !of_rest.has_low()) continue;
    at_least_zero((one - of_one.low) * (rest - of_rest.low));
    if (of_one.has_high()) at_least_zero((Polynomial(of_one.high) - one) * (rest - of_rest.low));
    if (of_rest.has_high()) at_least_zero((one - of_one.low) * (Polynomial(of_rest.high) - rest));
    if (atoms.size() == 2) break;  // the other way round is the same
  }
}

}  // namespace firesteel
