// Units of execution: reachability and order.
#include "fuse/unit_graph.h"

#include <algorithm>
#include <queue>

#include "base/error.h"

namespace firesteel {

UnitGraph::Unit UnitGraph::current(Unit unit) const {
  while (parts_[unit].merged != kNone) unit = parts_[unit].merged;
  return unit;
}

UnitGraph::Unit UnitGraph::add(const Node& node, size_t position) {
  const auto unit = static_cast<Unit>(parts_.size());
  parts_.push_back({{&node}, {}, {}, position, 0, kNone});
  unit_of_[&node] = unit;
  return unit;
}

void UnitGraph::join(Unit unit, const Node& node, size_t position) {
  Part& part = parts_[unit];
  part.nodes.push_back(&node);
  part.last = std::max(part.last, position);
  unit_of_[&node] = unit;
}

void UnitGraph::merge(Unit into, Unit from) {
  Part &target = parts_[into], &source = parts_[from];
  target.nodes.insert(target.nodes.end(), source.nodes.begin(), source.nodes.end());
  target.depends_on.insert(target.depends_on.end(), source.depends_on.begin(), source.depends_on.end());
  target.users.insert(target.users.end(), source.users.begin(), source.users.end());
  target.last = std::max(target.last, source.last);
  const size_t rank = std::max(target.rank, source.rank);
  source = {{}, {}, {}, 0, 0, into};
  target.rank = rank;
  for (size_t i = 0; i < parts_[into].users.size(); ++i) raise(current(parts_[into].users[i]), rank + 1);
}

// What depends on a unit rises with it. In a circle, which nobody should make, there would be no end.
void UnitGraph::raise(Unit unit, size_t rank) {
  std::vector<std::pair<Unit, size_t>> stack{{unit, rank}};
  while (!stack.empty()) {
    const auto [raised, to] = stack.back();
    stack.pop_back();
    if (parts_[raised].rank >= to || to > parts_.size()) continue;
    parts_[raised].rank = to;
    for (Unit user : parts_[raised].users) stack.emplace_back(current(user), to + 1);
  }
}

void UnitGraph::depend(Unit unit, Unit on) {
  if (unit == kNone || on == kNone || unit == on) return;
  parts_[unit].depends_on.push_back(on);
  parts_[on].users.push_back(unit);
  raise(unit, parts_[on].rank + 1);
}

UnitGraph::Unit UnitGraph::unit_of(const Node* node) const {
  auto found = unit_of_.find(node);
  return found == unit_of_.end() ? kNone : current(found->second);
}

bool UnitGraph::reaches(Unit from, Unit to) const {
  std::vector<Unit> stack{from};
  std::vector<bool> seen(parts_.size(), false);
  while (!stack.empty()) {
    const Unit unit = stack.back();
    stack.pop_back();
    for (Unit listed : parts_[unit].depends_on) {
      const Unit next = current(listed);
      if (next == to) return true;
      if (seen[next] || parts_[next].rank <= parts_[to].rank) continue;
      seen[next] = true;
      stack.push_back(next);
    }
  }
  return false;
}

std::vector<UnitGraph::Unit> UnitGraph::ordered() const {
  std::vector<size_t> waiting(parts_.size(), 0);
  std::vector<std::vector<Unit>> users(parts_.size());
  size_t count = 0;
  auto later = [&](Unit a, Unit b) { return parts_[a].last > parts_[b].last; };
  std::priority_queue<Unit, std::vector<Unit>, decltype(later)> ready(later);
  for (Unit unit = 0; unit < static_cast<Unit>(parts_.size()); ++unit) {
    if (parts_[unit].merged != kNone) continue;
    ++count;
    for (Unit listed : parts_[unit].depends_on) {
      const Unit on = current(listed);
      if (on == unit) continue;
      users[on].push_back(unit);
      ++waiting[unit];
    }
    if (waiting[unit] == 0) ready.push(unit);
  }
  std::vector<Unit> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (Unit user : users[order.back()]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  FS_CHECK(order.size() == count, "the groups depend on each other in a circle");
  return order;
}

}  // namespace firesteel
