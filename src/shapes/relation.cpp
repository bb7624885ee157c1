// Relation: building in one canonical form, negating, evaluating, printing.
#include "shapes/relation.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "shapes/polynomial.h"

namespace firesteel {
namespace {

const char* spelling(RelationKind kind) {
  switch (kind) {
#define X(name, text)      \
  case RelationKind::name: \
    return text;
    FIRESTEEL_RELATION_KINDS(X)
#undef X
  }
  return "";
}

int64_t floor_quotient(int64_t a, int64_t b) {  // b > 0
  return a / b - (a % b < 0 ? 1 : 0);
}

bool is_symbol(const Dim& dim) { return !dim.is_number() && dim.expr()->op == DimOp::Symbol; }

void mix(size_t& hash, size_t more) { hash = (hash ^ more) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

void mix(size_t& hash, const Dim& dim) {
  if (dim.is_number()) return mix(hash, static_cast<size_t>(dim.number()));
  mix(hash, static_cast<size_t>(dim.expr()->op) + 1);
  if (dim.expr()->op == DimOp::Symbol) return mix(hash, std::hash<std::string>()(dim.expr()->name));
  mix(hash, dim.expr()->lhs);
  mix(hash, dim.expr()->rhs);
}

// A polynomial without its constant, its factors divided by their common one, as a left and a right side that have
// positive factors only.
struct Sides {
  Polynomial left, right;
  int64_t constant;  // of the polynomial, not divided
  int64_t content;

  explicit Sides(const Polynomial& difference) : constant(difference.constant()), content(difference.content()) {
    for (const auto& [key, term] : difference.terms()) {
      if (key.empty()) continue;
      int64_t factor = term.factor / content;
      if (factor > 0) {
        left.add({factor, term.atoms});
      } else {
        right += Polynomial(Term{factor, term.atoms}) * -1;
      }
    }
  }
};

}  // namespace

Relation::Relation(RelationExpr expr) : expr_(std::make_shared<const RelationExpr>(std::move(expr))) {}

Relation Relation::known(bool value) {
  static const Relation kFalse(RelationExpr{RelationKind::Known, false, {}, {}, {}});
  static const Relation kTrue(RelationExpr{RelationKind::Known, true, {}, {}, {}});
  return value ? kTrue : kFalse;
}

Relation Relation::compare(RelationKind kind, const Dim& a, const Dim& b) {
  if (a == b) return known(kind == RelationKind::Eq || kind == RelationKind::Le);
  auto as_written = [&](const Dim& lhs, const Dim& rhs) { return Relation(RelationExpr{kind, false, lhs, rhs, {}}); };
  bool equality = kind == RelationKind::Eq || kind == RelationKind::Ne;
  // Most questions are about a symbol and a number (is it one?), which have their form already.
  if (is_symbol(a) && b.is_number() && kind != RelationKind::Lt) return as_written(a, b);
  if (a.is_number() && is_symbol(b) && kind != RelationKind::Lt) return equality ? as_written(b, a) : as_written(a, b);
  Polynomial difference = Polynomial(a) - Polynomial(b);
  if (!difference.ok()) return as_written(a, b);
  if (difference.is_number()) {
    int64_t number = difference.constant();
    if (equality) return known((number == 0) == (kind == RelationKind::Eq));
    return known(kind == RelationKind::Lt ? number < 0 : number <= 0);
  }
  Sides sides(difference);
  if (equality) {
    // An equation has no sign of its own: the first product stands on the left.
    auto first = std::find_if(difference.terms().begin(), difference.terms().end(),
                              [](auto& entry) { return !entry.first.empty(); });
    if (first->second.factor < 0) {
      difference = difference * -1;
      if (!difference.ok()) return as_written(a, b);
      sides = Sides(difference);
    }
    if (sides.constant % sides.content != 0) return known(kind == RelationKind::Ne);
  }
  // left - right <= most, over whole numbers: a `<` is a `<=` of one less, and the common factor rounds down.
  int64_t most;
  if (__builtin_sub_overflow(kind == RelationKind::Lt ? -1 : 0, sides.constant, &most)) return as_written(a, b);
  most = floor_quotient(most, sides.content);
  if (!equality) {
    bool strict = most == -1 && !sides.left.terms().empty() && !sides.right.terms().empty();
    kind = strict ? RelationKind::Lt : RelationKind::Le;
    if (strict) most = 0;
  }
  // The constant goes to the side that has nothing else, or else to the one where it is positive.
  bool goes_left = sides.left.terms().empty() || (most < 0 && !sides.right.terms().empty());
  (goes_left ? sides.left : sides.right) += Polynomial(most) * (goes_left ? -1 : 1);
  if (!sides.left.ok() || !sides.right.ok()) return as_written(a, b);
  return as_written(sides.left.dim(), sides.right.dim());
}

Relation Relation::gather(RelationKind kind, std::vector<Relation> operands) {
  bool absorbing = kind == RelationKind::Or;  // the value that decides alone
  std::vector<Relation> flat;
  for (Relation& operand : operands) {
    if (operand.kind() == kind) {
      flat.insert(flat.end(), operand.operands().begin(), operand.operands().end());
    } else if (!operand.is_known()) {
      flat.push_back(std::move(operand));
    } else if (operand.value() == absorbing) {
      return known(absorbing);
    }
  }
  std::vector<std::pair<std::string, size_t>> order;
  for (size_t i = 0; i < flat.size(); i++) order.emplace_back(flat[i].str(), i);
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end(), [](auto& a, auto& b) { return a.first == b.first; }),
              order.end());
  if (order.empty()) return known(!absorbing);
  if (order.size() == 1) return flat[order[0].second];
  RelationExpr expr{kind, false, {}, {}, {}};
  for (auto& [text, index] : order) {
    std::string opposite = flat[index].negated().str();
    auto found = std::lower_bound(order.begin(), order.end(), opposite, [](auto& a, auto& b) { return a.first < b; });
    if (found != order.end() && found->first == opposite) return known(absorbing);
    expr.operands.push_back(flat[index]);
  }
  return Relation(std::move(expr));
}

Relation Relation::negated() const {
  switch (kind()) {
    case RelationKind::Known:
      return known(!value());
    case RelationKind::Eq:
      return ne(lhs(), rhs());
    case RelationKind::Ne:
      return eq(lhs(), rhs());
    case RelationKind::Lt:
      return le(rhs(), lhs());
    case RelationKind::Le:
      return lt(rhs(), lhs());
    case RelationKind::And:
    case RelationKind::Or:
      break;
  }
  std::vector<Relation> opposites;
  for (const Relation& operand : operands()) opposites.push_back(operand.negated());
  return gather(kind() == RelationKind::And ? RelationKind::Or : RelationKind::And, std::move(opposites));
}

RelationKind Relation::kind() const { return expr_->kind; }
bool Relation::is_comparison() const {
  return kind() != RelationKind::Known && kind() != RelationKind::And && kind() != RelationKind::Or;
}
bool Relation::value() const { return expr_->value; }
const Dim& Relation::lhs() const { return expr_->lhs; }
const Dim& Relation::rhs() const { return expr_->rhs; }
const std::vector<Relation>& Relation::operands() const { return expr_->operands; }

std::optional<bool> Relation::evaluate(const Dim::Lookup& lookup) const {
  if (is_known()) return value();
  if (is_comparison()) {
    auto left = lhs().evaluate(lookup);
    auto right = left ? rhs().evaluate(lookup) : std::nullopt;
    if (!right) return std::nullopt;
    switch (kind()) {
      case RelationKind::Eq:
        return *left == *right;
      case RelationKind::Ne:
        return *left != *right;
      case RelationKind::Lt:
        return *left < *right;
      default:
        return *left <= *right;
    }
  }
  bool absorbing = kind() == RelationKind::Or;
  bool all_known = true;
  for (const Relation& operand : operands()) {
    auto result = operand.evaluate(lookup);
    if (result == absorbing) return absorbing;
    all_known = all_known && result;
  }
  return all_known ? std::optional(!absorbing) : std::nullopt;
}

std::string Relation::str() const {
  if (is_known()) return value() ? "True" : "False";
  if (is_comparison()) {
    // `s0 >= 2` reads better than `2 <= s0`.
    if (lhs().is_number() && kind() == RelationKind::Le) return fmt::format("{} >= {}", rhs().str(), lhs().str());
    return fmt::format("{} {} {}", lhs().str(), spelling(kind()), rhs().str());
  }
  std::string text;
  for (const Relation& operand : operands()) {
    if (!text.empty()) text += fmt::format(" {} ", spelling(kind()));
    text += operand.is_comparison() ? operand.str() : fmt::format("({})", operand.str());
  }
  return text;
}

size_t Relation::hash() const {
  size_t hash = static_cast<size_t>(kind()) * 2 + (value() ? 1 : 0);
  mix(hash, lhs());
  mix(hash, rhs());
  for (const Relation& operand : operands()) mix(hash, operand.hash());
  return hash;
}

bool operator==(const Relation& a, const Relation& b) {
  if (a.expr_ == b.expr_) return true;
  return a.kind() == b.kind() && a.value() == b.value() && a.lhs() == b.lhs() && a.rhs() == b.rhs() &&
         a.operands() == b.operands();
}

}  // namespace firesteel
