// Which parts of a graph run as one, and what each depends on: the fuser's guard against cycles.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace firesteel {

// A unit is one node, or a group of nodes that will run together. Positions are those of the nodes in the graph.
class UnitGraph {
 public:
  using Unit = int32_t;
  static constexpr Unit kNone = -1;

  Unit add(const Node& node, size_t position);              // a unit of its own
  void join(Unit unit, const Node& node, size_t position);  // one more node in it
  void merge(Unit into, Unit from);                         // two units become one
  void depend(Unit unit, Unit on);
  Unit unit_of(const Node* node) const;    // kNone for null and unknown nodes
  bool reaches(Unit from, Unit to) const;  // `from` depends on `to`, through any path

  const std::vector<const Node*>& nodes(Unit unit) const { return parts_[unit].nodes; }
  // All units, each behind those it depends on, otherwise by the position of its last node.
  std::vector<Unit> ordered() const;

 private:
  struct Part {
    std::vector<const Node*> nodes;
    std::vector<Unit> depends_on, users;
    size_t last = 0;
    size_t rank = 0;  // above that of all it depends on
    Unit merged = kNone;
  };
  Unit current(Unit unit) const;
  void raise(Unit unit, size_t rank);

  std::vector<Part> parts_;
  std::unordered_map<const Node*, Unit> unit_of_;
};

}  // namespace firesteel
