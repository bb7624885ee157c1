// Facts: answering. Ranges come first; what they leave open goes to the solver, unless two values show that it is open.
#include <algorithm>

#include "shapes/facts.h"
#include "shapes/linearize.h"
#include "shapes/witnesses.h"

namespace firesteel {
namespace {

constexpr size_t kMostAnswers = 1 << 14;  // remembered

}  // namespace

std::optional<bool> Facts::decide(const Relation& relation) const {
  if (relation.is_known()) return relation.value();
  auto proved = proved_.find(relation);
  if (proved != proved_.end()) return proved->second;
  if (open_.contains(relation)) return std::nullopt;
  auto decided = decide_by_ranges(relation);
  bool may_solve = has_linear_solver() && steps_ == kSteps && !base_.contradictory;
  if (!decided && may_solve) decided = decide_by_solver(relation);
  if (proved_.size() + open_.size() >= kMostAnswers) {
    proved_.clear();
    open_.clear();
  }
  if (decided) {
    proved_.emplace(relation, *decided);
  } else {
    open_.insert(relation);
  }
  return decided;
}

std::optional<bool> Facts::decide_by_solver(const Relation& relation) const {
  if (!witnesses_) witnesses_ = find_witnesses(base_);
  if (is_open(relation, *witnesses_)) return std::nullopt;
  auto excluded = [&](const Relation& one) {
    Reasoner reasoner(base_, steps_);
    auto problem = Linearizer(base_, reasoner).problem(one);
    return problem && has_no_point(*problem);
  };
  if (excluded(relation.negated())) return true;
  if (excluded(relation)) return false;
  return std::nullopt;
}

std::optional<bool> Facts::decide_by_ranges(const Relation& relation) const {
  if (relation.is_known()) return relation.value();
  if (!relation.is_comparison()) {
    bool absorbing = relation.kind() == RelationKind::Or;
    bool all_decided = true;
    // The absorbing value holds where the opposite of it is impossible.
    Facts otherwise;
    otherwise.base_ = base_;
    otherwise.steps_ = steps_;
    for (const Relation& operand : relation.operands()) {
      auto decided = decide_by_ranges(operand);
      if (decided == absorbing) return absorbing;
      all_decided = all_decided && decided;
      if (!decided) otherwise.assume(absorbing ? operand.negated() : operand);
      if (otherwise.contradictory() && !contradictory()) return absorbing;
    }
    if (all_decided) return !absorbing;
    bool is_held = std::find(base_.held.begin(), base_.held.end(), relation) != base_.held.end();
    return is_held ? std::optional(true) : std::nullopt;
  }
  Reasoner reasoner(base_, steps_);
  Polynomial difference = reasoner.simplified(relation.lhs()) - reasoner.simplified(relation.rhs());
  if (!difference.ok()) return std::nullopt;
  bool equality = relation.kind() == RelationKind::Eq || relation.kind() == RelationKind::Ne;
  difference = reasoner.without_common_atoms(difference, !equality);
  if (!equality) {
    if (relation.kind() == RelationKind::Lt) difference += 1;
    if (reasoner.at_most_zero(difference)) return true;
    if (reasoner.at_most_zero(Polynomial(1) - difference)) return false;
    return std::nullopt;
  }
  bool equal = relation.kind() == RelationKind::Eq;
  if (reasoner.never_zero(difference)) return !equal;
  bool not_above = reasoner.at_most_zero(difference);
  bool not_below = reasoner.at_most_zero(difference * -1);
  if (not_above && not_below) return equal;
  // Above or below by at least one; where a bound already reaches zero there is nothing to find.
  if (!not_above && reasoner.at_most_zero(Polynomial(1) - difference)) return !equal;
  if (!not_below && reasoner.at_most_zero(difference + 1)) return !equal;
  return std::nullopt;
}

Dim Facts::simplify(const Dim& dim) const {
  if (dim.is_number()) return dim;
  Polynomial result = Reasoner(base_, steps_).simplified(dim);
  return result.ok() ? result.dim() : dim;
}

std::pair<std::optional<int64_t>, std::optional<int64_t>> Facts::range(const Dim& dim) const {
  Reasoner reasoner(base_, steps_);
  Interval interval = reasoner.range(reasoner.simplified(dim));
  return {interval.has_low() ? std::optional(interval.low) : std::nullopt,
          interval.has_high() ? std::optional(interval.high) : std::nullopt};
}

}  // namespace firesteel
