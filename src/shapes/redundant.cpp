// without_redundant: once forwards, once backwards, and for few relations each against all the others.
#include "shapes/redundant.h"

#include <algorithm>
#include <numeric>

namespace firesteel {
namespace {

// Each is tried against the facts of all others, anew: past this many it takes longer than the checks it could save.
constexpr size_t kMostTriedAlone = 16;
// Of many, each is looked at with less effort, so that all together take a fraction of a second.
constexpr size_t kMostSteps = 200000;

void flatten(const Relation& relation, std::vector<Relation>& result) {
  if (relation.kind() != RelationKind::And) {
    result.push_back(relation);
    return;
  }
  for (const Relation& operand : relation.operands()) flatten(operand, result);
}

// Drops what those before it in `order` imply. False: they exclude each other.
bool drop_implied(const std::vector<Relation>& relations, std::vector<size_t>& order, Facts facts) {
  std::erase_if(order, [&](size_t index) {
    if (facts.decide(relations[index]) == true) return true;
    facts.assume(relations[index]);
    return false;
  });
  return !facts.contradictory();
}

}  // namespace

std::vector<Relation> without_redundant(const std::vector<Relation>& relations, const Facts& initial) {
  std::vector<Relation> flat;
  for (const Relation& relation : relations) flatten(relation, flat);
  std::vector<size_t> order(flat.size());
  std::iota(order.begin(), order.end(), 0);
  // What is quick to check and says much comes first, to be kept rather than others.
  std::vector<std::pair<bool, size_t>> cost;
  for (const Relation& relation : flat) cost.emplace_back(relation.kind() != RelationKind::Eq, relation.str().size());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost[a] < cost[b]; });

  Facts facts = initial;
  if (flat.size() > kMostTriedAlone) facts.limit(static_cast<int>(kMostSteps / flat.size()));
  bool possible = !facts.contradictory() && drop_implied(flat, order, facts);
  if (possible) {
    std::reverse(order.begin(), order.end());
    possible = drop_implied(flat, order, facts);
  }
  if (!possible) return relations;  // never met: nothing follows from them that could be relied on
  for (size_t i = 0; i < order.size() && order.size() <= kMostTriedAlone;) {
    Facts others = facts;
    for (size_t j = 0; j < order.size(); j++) {
      if (j != i) others.assume(flat[order[j]]);
    }
    if (!others.contradictory() && others.decide(flat[order[i]]) == true) {
      order.erase(order.begin() + i);
    } else {
      i++;
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<Relation> result;
  for (size_t index : order) result.push_back(flat[index]);
  return result;
}

}  // namespace firesteel
