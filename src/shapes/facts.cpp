// Facts: taking in what holds.
#include "shapes/facts.h"

#include <algorithm>

#include "shapes/reasoner.h"

namespace firesteel {
namespace {

constexpr int kMostNested = 8;  // replacements that a replacement brings about
constexpr int kMostRounds = 3;  // of bounds passed from inequality to inequality
constexpr int64_t kLargestModulus = int64_t{1} << 40;
constexpr size_t kMostFacts = 512;  // inequalities kept; more would only slow every question down

bool is_symbol(const Dim& dim) { return !dim.is_number() && dim.expr()->op == DimOp::Symbol; }

bool mentions(const Dim& dim, const Dim& part) {
  if (dim.is_number()) return false;
  if (dim == part) return true;
  if (dim.expr()->op == DimOp::Symbol) return false;
  return mentions(dim.expr()->lhs, part) || mentions(dim.expr()->rhs, part);
}

// A later symbol is written by earlier ones, a symbol by what it stands for rather than the other way round.
bool rather_replaced(const Atom& a, const Atom& b) {
  if (is_symbol(a.dim) != is_symbol(b.dim)) return is_symbol(a.dim);
  return std::pair(a.text.size(), a.text) > std::pair(b.text.size(), b.text);
}

// The atom that `polynomial == 0` gives a value, and the value.
std::optional<std::pair<Atom, Polynomial>> solved(const Polynomial& polynomial) {
  std::optional<std::pair<Atom, Polynomial>> best;
  for (const auto& [key, term] : polynomial.terms()) {
    if (term.atoms.size() != 1 || (term.factor != 1 && term.factor != -1)) continue;
    const Atom& atom = term.atoms[0];
    if (best && !rather_replaced(atom, best->first)) continue;
    Polynomial rest = polynomial - Polynomial(term);
    std::vector<Atom> others = rest.atoms();
    if (std::any_of(others.begin(), others.end(), [&](auto& other) { return mentions(other.dim, atom.dim); })) continue;
    best = {atom, rest * -term.factor};
  }
  return best && best->second.ok() ? best : std::nullopt;
}

// x % k == r tells of x: of an atom, where x is one and a number, else of the sum.
void add_residue(FactBase& base, const DimExpr& mod, int64_t residue) {
  int64_t modulus = mod.rhs.number();
  Polynomial of(mod.lhs);
  if (!of.ok() || modulus <= 1 || modulus > kLargestModulus) return;
  Polynomial terms = of - Polynomial(of.constant());
  Dim key = terms.dim();
  int64_t own;
  if (__builtin_sub_overflow(residue, of.constant(), &own)) return;
  own %= modulus;
  if (own < 0) own += modulus;
  auto& [dim, known] = base.residues[key.str()];
  dim = key;
  if (modulus > known.modulus) known = {modulus, own};
}

}  // namespace

void Facts::add_symbol(const std::string& name, int64_t least, int64_t most) {
  forget_open_questions();
  assume_bounds({name, Dim::symbol(name)}, {least, most});
}

void Facts::assume(const Relation& relation) {
  forget_open_questions();
  if (relation.is_comparison()) return assume_comparison(relation);
  if (relation.is_known()) {
    base_.contradictory = base_.contradictory || !relation.value();
    return;
  }
  if (relation.kind() == RelationKind::And) {
    for (const Relation& operand : relation.operands()) assume(operand);
    return;
  }
  std::vector<Relation> open;
  for (const Relation& operand : relation.operands()) {
    auto decided = decide_by_ranges(operand);
    if (decided == true) return;
    if (!decided) open.push_back(operand);
  }
  Relation rest = Relation::any(open);
  if (rest.kind() == RelationKind::Or) {
    if (base_.held.size() < kMostFacts) base_.held.push_back(std::move(rest));
  } else {
    assume(rest);
  }
}

void Facts::assume_comparison(const Relation& relation) {
  auto decided = decide_by_ranges(relation);
  if (decided) {
    base_.contradictory = base_.contradictory || !*decided;
    return;
  }
  Reasoner reasoner(base_, steps_);
  Polynomial difference = reasoner.simplified(relation.lhs()) - reasoner.simplified(relation.rhs());
  if (!difference.ok()) return;  // nothing that reasoning could use
  bool sign_matters = relation.kind() == RelationKind::Lt || relation.kind() == RelationKind::Le;
  difference = reasoner.without_common_atoms(difference, sign_matters);
  switch (relation.kind()) {
    case RelationKind::Lt:
      return assume_at_most_zero(difference + 1);
    case RelationKind::Le:
      return assume_at_most_zero(difference);
    case RelationKind::Eq:
      return assume_zero(difference);
    default:
      break;
  }
  // An excluded value at the end of a range moves the end.
  bool not_above = reasoner.at_most_zero(difference);
  bool not_below = reasoner.at_most_zero(difference * -1);
  if (not_above) return assume_at_most_zero(difference + 1);
  if (not_below) return assume_at_most_zero(Polynomial(1) - difference);
  if (base_.held.size() < kMostFacts) base_.held.push_back(Relation::ne(difference.dim(), 0));
}

void Facts::assume_at_most_zero(const Polynomial& polynomial) {
  Relation relation = Relation::le(polynomial.dim(), 0);
  if (relation.is_known()) return assume(relation);
  Polynomial difference = Polynomial(relation.lhs()) - Polynomial(relation.rhs());
  if (relation.kind() == RelationKind::Lt) difference += 1;
  if (!difference.ok()) return;
  int64_t constant = difference.constant();
  Polynomial terms = difference - Polynomial(constant);
  const Term& only = terms.terms().begin()->second;
  if (terms.terms().size() == 1 && only.atoms.size() == 1 && constant != INT64_MIN) {
    // The common factor is divided out: the atom stands alone.
    assume_bounds(only.atoms[0],
                  only.factor > 0 ? Interval{Interval::kNoLow, -constant} : Interval{constant, Interval::kNoHigh});
  } else if (base_.at_most_zero.size() < kMostFacts) {
    base_.at_most_zero.push_back(std::move(difference));
  }
  propagate();
}

void Facts::assume_bounds(const Atom& atom, const Interval& interval) {
  auto& [dim, known] = base_.bounds[atom.text];
  dim = atom.dim;
  known = known.meet(interval);
  base_.contradictory = base_.contradictory || known.empty();
  if (known.is_number() && !base_.replacements.contains(atom.text)) replace(atom, known.low);
}

// a*x + rest <= 0 bounds x by the least value of the rest.
void Facts::propagate() {
  for (int round = 0; round < kMostRounds && !base_.contradictory; round++) {
    std::vector<std::pair<Atom, Interval>> found;
    Reasoner reasoner(base_, steps_);
    for (const Polynomial& polynomial : base_.at_most_zero) {
      for (const auto& [key, term] : polynomial.terms()) {
        if (term.atoms.size() != 1 || term.factor == INT64_MIN) continue;
        Interval rest = reasoner.range(polynomial - Polynomial(term));
        if (!rest.has_low()) continue;
        // x <= floor(-rest / a), and for a negative factor x >= ceil(rest / -a).
        Interval of_atom;
        if (term.factor > 0) {
          of_atom.high = floor_div(rest.negated(), Interval::of(term.factor)).high;
        } else {
          of_atom.low = -floor_div(rest.negated(), Interval::of(-term.factor)).high;
        }
        auto known = base_.bounds.find(term.atoms[0].text);
        Interval before = known == base_.bounds.end() ? Interval{} : known->second.second;
        if (before.meet(of_atom) != before) found.emplace_back(term.atoms[0], of_atom);
      }
    }
    if (found.empty()) return;
    for (auto& [atom, interval] : found) assume_bounds(atom, interval);
  }
}

void Facts::assume_zero(const Polynomial& polynomial) {
  auto solution = solved(polynomial);
  if (solution) return replace(solution->first, solution->second.dim());
  if (base_.at_most_zero.size() + 2 > kMostFacts) return;
  assume_at_most_zero(polynomial);
  assume_at_most_zero(polynomial * -1);
}

// From now on the atom is written otherwise: so are all facts that mention it.
void Facts::replace(const Atom& atom, const Dim& replacement) {
  if (nested_ >= kMostNested) return;  // one fact less
  nested_++;
  FactBase old = std::exchange(base_, {});
  base_.contradictory = old.contradictory;
  std::vector<Relation> again;
  base_.replacements[atom.text] = {atom.dim, replacement};
  for (auto& [text, entry] : old.replacements) {
    auto& [dim, value] = entry;
    if (text == atom.text) {
      again.push_back(Relation::eq(value, replacement));
    } else if (mentions(dim, atom.dim)) {
      again.push_back(Relation::eq(dim, value));
    } else {
      base_.replacements[text] = {dim, Reasoner(base_, steps_).simplified(value).dim()};
    }
  }
  for (auto& [text, entry] : old.bounds) {
    auto& [dim, interval] = entry;
    if (!mentions(dim, atom.dim)) {
      base_.bounds[text] = entry;
      continue;
    }
    if (interval.has_low()) again.push_back(Relation::ge(dim, interval.low));
    if (interval.has_high()) again.push_back(Relation::le(dim, interval.high));
  }
  for (auto& [text, entry] : base_.replacements) {
    const DimExpr* expr = entry.first.expr();
    bool residue = expr->op == DimOp::Mod && expr->rhs.is_number() && entry.second.is_number();
    if (residue) add_residue(base_, *expr, entry.second.number());
  }
  for (const Relation& relation : again) assume(relation);
  for (const Polynomial& polynomial : old.at_most_zero) assume(Relation::le(polynomial.dim(), 0));
  for (const Relation& relation : old.held) assume(relation);
  nested_--;
}

void Facts::forget_open_questions() {
  open_.clear();
  witnesses_.reset();
}

}  // namespace firesteel
