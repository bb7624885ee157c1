// Forms the groups: producers into consumers, then siblings.
#include "fuse/fusion.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fuse/group_builder.h"
#include "fuse/operand.h"
#include "fuse/pointwise_rules.h"
#include "fuse/unit_graph.h"

namespace firesteel {
namespace {

using Unit = UnitGraph::Unit;

const Value* output(const Node& node) { return node.outputs[0].get(); }

// A store must write every element once.
bool has_dense_output(const Node& node) {
  const Type& type = output(node)->type;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.sizes[d] != Dim(1) && type.strides[d] == Dim(0)) return false;
  }
  return true;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const FuseOptions& options) : graph_(graph), options_(options) {}

  std::vector<FusedGroup> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) place(*graph_.nodes[i], i);
    return build();
  }

 private:
  struct Read {
    const Value* value;  // as the node names it
    Operand operand;
    Unit unit;  // what computes the root
  };
  // Where a node would lie in a group.
  struct Seat {
    Unit group = UnitGraph::kNone;
    Placement placement;
  };
  // A member that reads some memory; another node that reads it in the same way may sit beside it.
  struct Reader {
    const Node* node;
    const Value* value;
  };

  void place(const Node& node, size_t position) {
    position_.emplace(&node, position);
    if (!node.op.is_aten() || !is_pointwise(node) || !has_dense_output(node)) {
      const Unit unit = units_.add(node, position);
      node.each_input([&](const Value* input) { units_.depend(unit, units_.unit_of(input->def)); });
      order_effects(node, unit);
      return;
    }
    std::vector<Read> reads;
    node.each_input([&](const Value* value) {
      Operand operand = resolve(value);
      const Unit unit = operand.constant ? UnitGraph::kNone : units_.unit_of(operand.root->def);
      reads.push_back({value, std::move(operand), unit});
    });
    Seat seat = beside_producers(node, reads);
    if (seat.group == UnitGraph::kNone) seat = beside_sibling(node, reads);
    if (seat.group == UnitGraph::kNone) {
      seat = {units_.add(node, position), loops_.place(*numbers(output(node)->type.sizes))};
      groups_.insert(seat.group);
    } else {
      units_.join(seat.group, node, position);
    }
    placements_.emplace(output(node), std::move(seat.placement));
    for (const Read& read : reads) {
      units_.depend(seat.group, read.unit);
      if (read.unit != seat.group && !read.operand.constant) readers_[read.operand.root].push_back({&node, read.value});
    }
  }

  // Nodes that draw random numbers or do more than compute stay in order among themselves.
  void order_effects(const Node& node, Unit unit) {
    if (node.op.is_aten() && op_facts(*node.op.aten).is_pure) return;
    units_.depend(unit, last_effect_);
    last_effect_ = unit;
  }

  // The operand's place in its group, broadcast to the node's rank; none where it is not all of the node's points.
  std::optional<Placement> placement_of(const Node& node, const Read& read) {
    auto root = placements_.find(read.operand.root);
    if (root == placements_.end() || !groups_.contains(read.unit)) return std::nullopt;
    std::vector<Dim> sizes = read.value->type.sizes;
    const std::vector<Dim>& wanted = output(node)->type.sizes;
    if (sizes.size() > wanted.size()) return std::nullopt;
    const size_t missing = wanted.size() - sizes.size();
    sizes.insert(sizes.begin(), missing, Dim(1));
    if (sizes != wanted) return std::nullopt;
    std::optional<Placement> placement = place_view(read.operand, root->second, loops_);
    if (placement) placement->insert(placement->begin(), missing, {});
    return placement;
  }

  // Whether every operand that this group computes is at the same point, and no other one depends on the group.
  bool fits(const Node& node, const std::vector<Read>& reads, const Seat& seat) {
    if (units_.nodes(seat.group).size() >= options_.largest_group) return false;
    for (const Read& read : reads) {
      if (read.unit == UnitGraph::kNone) continue;
      if (read.unit != seat.group) {
        if (units_.reaches(read.unit, seat.group)) return false;
        continue;
      }
      const std::optional<Placement> placement = placement_of(node, read);
      if (!placement || !loops_.same(*placement, seat.placement)) return false;
    }
    return true;
  }

  Seat beside_producers(const Node& node, std::vector<Read>& reads) {
    Seat seat;
    for (Read& read : reads) {
      std::optional<Placement> placement = placement_of(node, read);
      if (!placement || read.unit == seat.group) continue;
      Seat found{read.unit, std::move(*placement)};
      if (!fits(node, reads, found)) continue;
      if (seat.group == UnitGraph::kNone) {
        seat = std::move(found);
      } else if (can_merge(seat.group, found.group) && loops_.join(seat.placement, found.placement)) {
        units_.merge(seat.group, found.group);
        for (Read& other : reads) {
          if (other.unit == found.group) other.unit = seat.group;
        }
      }
    }
    return seat;
  }

  bool can_merge(Unit a, Unit b) const {
    return units_.nodes(a).size() + units_.nodes(b).size() < options_.largest_group && !units_.reaches(a, b) &&
           !units_.reaches(b, a);
  }

  Seat beside_sibling(const Node& node, const std::vector<Read>& reads) {
    for (const Read& read : reads) {
      auto found = readers_.find(read.operand.root);
      if (read.operand.constant || found == readers_.end()) continue;
      for (const Reader& reader : found->second) {
        const Type &theirs = reader.value->type, &ours = read.value->type;
        const bool alike = output(*reader.node)->type.sizes == output(node)->type.sizes && theirs.sizes == ours.sizes &&
                           theirs.strides == ours.strides && resolve(reader.value).offset == read.operand.offset;
        if (!alike) continue;
        Seat seat{units_.unit_of(reader.node), placements_.at(output(*reader.node))};
        if (fits(node, reads, seat)) return seat;
      }
    }
    return {};
  }

  // Values of a group that something outside it reads.
  std::unordered_set<const Value*> stored_values() const {
    std::unordered_set<const Value*> stored;
    auto mark = [&](const Value* value, Unit reader) {
      const Operand operand = resolve(value);
      const Unit owner = operand.root->def ? units_.unit_of(operand.root->def) : UnitGraph::kNone;
      if (owner != reader || !groups_.contains(owner)) stored.insert(operand.root);
    };
    for (const auto& node : graph_.nodes) {
      // A view is read by whoever reads it.
      if (is_mapped_view(*node)) continue;
      const Unit unit = units_.unit_of(node.get());
      node->each_input([&](const Value* value) { mark(value, unit); });
    }
    for (const Arg& result : graph_.outputs)
      result.each_value([&](const Value* value) { mark(value, UnitGraph::kNone); });
    for (const Mutation& mutation : graph_.mutations) mark(mutation.updated, UnitGraph::kNone);
    return stored;
  }

  std::vector<FusedGroup> build() {
    const std::unordered_set<const Value*> stored = stored_values();
    std::vector<FusedGroup> groups;
    std::unordered_set<Unit> done;
    for (const auto& node : graph_.nodes) {
      const Unit unit = units_.unit_of(node.get());
      if (!groups_.contains(unit) || !done.insert(unit).second) continue;
      if (units_.nodes(unit).size() < options_.smallest_group) continue;
      FusedGroup group = build_group(in_order(unit), placements_, loops_, stored);
      if (!group.outputs.empty()) groups.push_back(std::move(group));
    }
    return groups;
  }

  std::vector<const Node*> in_order(Unit unit) const {
    std::vector<const Node*> nodes = units_.nodes(unit);
    std::sort(nodes.begin(), nodes.end(),
              [&](const Node* a, const Node* b) { return position_.at(a) < position_.at(b); });
    return nodes;
  }

  const Graph& graph_;
  const FuseOptions& options_;
  UnitGraph units_;
  LoopTable loops_;
  Placements placements_;  // of the results of all members
  std::unordered_set<Unit> groups_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, std::vector<Reader>> readers_;
  Unit last_effect_ = UnitGraph::kNone;
};

// Pure nodes that nothing reads once the groups read through views and constants by themselves.
std::unordered_set<const Node*> unread_nodes(const Graph& graph,
                                             const std::unordered_map<const Node*, const FusedGroup*>& group_of) {
  std::unordered_set<const Value*> read;
  auto mark = [&](const Value* value) { read.insert(value); };
  for (const Arg& result : graph.outputs) result.each_value(mark);
  for (const Mutation& mutation : graph.mutations) mark(mutation.updated);
  for (const auto& [node, group] : group_of) {
    for (const Value* input : group->inputs) mark(input);
  }
  std::unordered_set<const Node*> unread;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    if (group_of.contains(&node)) continue;
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](const auto& value) { return read.contains(value.get()); });
    if (!is_read && node.op.is_aten() && op_facts(*node.op.aten).is_pure) {
      unread.insert(&node);
    } else {
      node.each_input(mark);
    }
  }
  return unread;
}

}  // namespace

std::vector<FusedGroup> fuse(const Graph& graph, const FuseOptions& options) { return Fuser(graph, options).run(); }

std::vector<FusedStep> schedule(const Graph& graph, std::span<const FusedGroup* const> groups) {
  std::unordered_map<const Node*, const FusedGroup*> group_of;
  for (const FusedGroup* group : groups) {
    for (const Node* node : group->nodes) group_of.emplace(node, group);
  }
  const std::unordered_set<const Node*> unread = unread_nodes(graph, group_of);
  UnitGraph units;
  std::unordered_map<const FusedGroup*, Unit> unit_of_group;
  Unit last_effect = UnitGraph::kNone;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (unread.contains(&node)) continue;
    if (auto found = group_of.find(&node); found != group_of.end()) {
      auto [known, is_new] = unit_of_group.emplace(found->second, UnitGraph::kNone);
      if (is_new) {
        known->second = units.add(node, i);
      } else {
        units.join(known->second, node, i);
      }
    } else {
      const Unit unit = units.add(node, i);
      if (!node.op.is_aten() || !op_facts(*node.op.aten).is_pure) {
        units.depend(unit, last_effect);
        last_effect = unit;
      }
    }
  }
  for (const auto& node : graph.nodes) {
    if (unread.contains(node.get())) continue;
    const Unit unit = units.unit_of(node.get());
    auto depend_on = [&](const Value* value) { units.depend(unit, units.unit_of(value->def)); };
    if (auto found = group_of.find(node.get()); found != group_of.end()) {
      if (node.get() == found->second->nodes.front()) {
        for (const Value* input : found->second->inputs) depend_on(input);
      }
    } else {
      node->each_input(depend_on);
    }
  }
  std::vector<FusedStep> steps;
  for (Unit unit : units.ordered()) {
    const Node* node = units.nodes(unit).front();
    auto found = group_of.find(node);
    steps.push_back(found == group_of.end() ? FusedStep{node, nullptr} : FusedStep{nullptr, found->second});
  }
  return steps;
}

}  // namespace firesteel
