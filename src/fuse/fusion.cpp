// Forms the groups: producers into consumers, then siblings.
#include "fuse/fusion.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fuse/group_builder.h"
#include "fuse/node_rules.h"
#include "fuse/operand.h"
#include "fuse/repeats.h"
#include "fuse/row_plan.h"
#include "fuse/size_math.h"
#include "fuse/unit_graph.h"

namespace firesteel {
namespace {

using Unit = UnitGraph::Unit;

// A store must write every element once.
bool has_dense_outputs(const Node& node) {
  for (const auto& output : node.outputs) {
    const Type& type = output->type;
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (type.sizes[d] != Dim(1) && type.strides[d] == Dim(0)) return false;
    }
  }
  return true;
}

constexpr int64_t kLargeResult = 256 << 10;  // bytes; from here on fresh memory costs more than the kernel

// Its memory runs along another dimension: kernels read it by tiles.
bool is_transposed(const Type& type, size_t inner) {
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (d != inner && type.strides[d] == Dim(1) && estimate(type.sizes[d]) >= 16) return true;
  }
  return false;
}

// A large result whose operands lie in memory as it does: a kernel in reused memory is faster than ATen even alone.
bool is_large_in_order(const Node& node) {
  const Type& type = node.outputs[0]->type;
  const std::vector<Dim>& sizes = type.sizes;
  const int64_t bytes = estimate(product(sizes) * element_bytes(*element_of(type.dtype)));
  size_t inner = sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!is_number(sizes[d], 1) && type.strides[d] == Dim(1)) inner = d;
  }
  if (bytes < kLargeResult || inner == sizes.size()) return false;
  bool in_order = true;
  node.each_input([&](const Value* input) {
    const size_t rank = input->type.sizes.size(), from_last = sizes.size() - inner;
    if (from_last > rank || input->type.sizes[rank - from_last] == Dim(1)) return;
    const Dim& stride = input->type.strides[rank - from_last];
    in_order = in_order && (stride == Dim(1) || stride == Dim(0) || is_transposed(input->type, rank - from_last));
  });
  return in_order;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const FuseOptions& options) : graph_(graph), options_(options) {}

  std::vector<FusedGroup> run() {
    auto mark = [&](const Value* value) { read_.insert(value); };
    for (const auto& node : graph_.nodes) node->each_input(mark);
    for (const Arg& result : graph_.outputs) result.each_value(mark);
    for (const Mutation& mutation : graph_.mutations) mark(mutation.updated);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) place(*graph_.nodes[i], i);
    return build();
  }

 private:
  struct Read {
    const Value* value;  // as the node names it
    Operand operand;
    Unit unit;   // what computes the root
    bool apart;  // must not be computed where it is read
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
    std::optional<NodeSpace> space;
    if (node.op.is_aten() && has_dense_outputs(node) && !has_read_void(node)) space = node_space(node);
    if (!space) {
      const Unit unit = units_.add(node, position);
      node.each_input([&](const Value* input) { units_.depend(unit, units_.unit_of(input->def)); });
      order_effects(node, unit);
      return;
    }
    std::vector<Read> reads;
    node.each_input([&](const Value* value) {
      Operand operand = resolve(value);
      const Unit unit = operand.constant ? UnitGraph::kNone : units_.unit_of(operand.root->def);
      reads.push_back({value, std::move(operand), unit, space->wants_in_memory(value) || space->is_moved(value)});
    });
    Seat seat = beside_producers(*space, reads);
    if (seat.group == UnitGraph::kNone) seat = beside_sibling(*space, reads);
    if (seat.group == UnitGraph::kNone) {
      seat = {units_.add(node, position), loops_.place(space->sizes)};
      groups_.insert(seat.group);
    } else {
      units_.join(seat.group, node, position);
    }
    for (const Read& read : reads) {
      units_.depend(seat.group, read.unit);
      if (read.unit != seat.group && !read.operand.constant && !read.apart)
        readers_[read.operand.root].push_back({&node, read.value});
    }
    take(node, *space, std::move(seat));
  }

  // Kernels do not make tensors of no elements that something reads.
  bool has_read_void(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](const auto& value) {
      const std::vector<Dim>& sizes = value->type.sizes;
      return node.outputs.size() > 1 && read_.contains(value.get()) &&
             std::find(sizes.begin(), sizes.end(), Dim(0)) != sizes.end();
    });
  }

  // The node's loops and its results' are known.
  void take(const Node& node, const NodeSpace& space, Seat seat) {
    if (space.reduces() && !reduced_.contains(seat.group)) {
      std::vector<LoopId>& reduced = reduced_[seat.group];
      for (size_t d = 0; d < space.sizes.size(); ++d) {
        if (space.reduced[d]) reduced.insert(reduced.end(), seat.placement[d].begin(), seat.placement[d].end());
      }
      loops_.reduce(reduced);
    }
    if (space.walk != Walk::Any) walks_[seat.group] = space.walk;
    for (const auto& value : node.outputs) {
      if (!value->type.is_tensor()) continue;
      if (node.outputs.size() > 1 && !read_.contains(value.get())) continue;
      Placement placement;
      const bool of_points = value->type.sizes == space.sizes;
      const bool keeps_dims = value->type.sizes.size() == space.sizes.size();
      for (size_t d = 0; d < space.sizes.size(); ++d) {
        if (of_points || !space.reduces() || !space.reduced[d]) {
          placement.push_back(seat.placement[d]);
        } else if (keeps_dims) {
          placement.emplace_back();
        }
      }
      placements_.emplace(value.get(), std::move(placement));
    }
    spaces_.emplace(&node, GroupNode{&node, space, std::move(seat.placement)});
  }

  // Nodes that draw random numbers or do more than compute stay in order among themselves.
  void order_effects(const Node& node, Unit unit) {
    if (node.op.is_aten() && op_facts(*node.op.aten).is_pure) return;
    units_.depend(unit, last_effect_);
    last_effect_ = unit;
  }

  // The operand's place in its group, with as many dimensions as the node's space; none where it is in no group or not
  // broadcast to that space. A dimension along which it repeats has no loops.
  std::optional<Placement> placement_of(const NodeSpace& space, const Read& read) {
    auto root = placements_.find(read.operand.root);
    if (root == placements_.end() || !groups_.contains(read.unit) || read.apart) return std::nullopt;
    const std::vector<Dim>& sizes = read.value->type.sizes;
    if (sizes.size() > space.sizes.size()) return std::nullopt;
    const size_t first = space.first_dim(read.value);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != Dim(1) && sizes[d] != space.sizes[d + first]) return std::nullopt;
    }
    std::optional<Placement> placement = place_view(read.operand, root->second, loops_);
    if (!placement) return std::nullopt;
    placement->insert(placement->begin(), first, {});
    placement->resize(space.sizes.size());
    return placement;
  }

  // A value of the same point, or of the row that the point is in.
  bool agrees(const Placement& operand, const Placement& seat) const {
    for (size_t d = 0; d < seat.size(); ++d) {
      if (loops_.same(operand[d], seat[d])) continue;
      if (!operand[d].empty() || !loops_.all_reduced(seat[d])) return false;
    }
    return true;
  }

  // A place for a node that reads a value of rows: the dimensions along which it repeats are the row.
  std::optional<Placement> along_rows(const NodeSpace& space, Placement operand, Unit group) {
    std::vector<size_t> repeated;
    std::vector<Dim> sizes;
    for (size_t d = 0; d < operand.size(); ++d) {
      if (!operand[d].empty() || is_number(space.sizes[d], 1)) continue;
      repeated.push_back(d);
      sizes.push_back(space.sizes[d]);
    }
    if (repeated.empty()) return operand;
    auto reduced = reduced_.find(group);
    if (reduced == reduced_.end() || loops_.has_reduced(operand)) return std::nullopt;
    std::optional<Placement> row = loops_.reshape({reduced->second}, sizes);
    if (!row) return std::nullopt;
    for (size_t i = 0; i < repeated.size(); ++i) operand[repeated[i]] = std::move((*row)[i]);
    return operand;
  }

  Walk walk_of(Unit group) const {
    auto found = walks_.find(group);
    return found == walks_.end() ? Walk::Any : found->second;
  }
  static bool walks_alike(Walk a, Walk b) { return a == b || a == Walk::Any || b == Walk::Any; }

  // A row that is walked in order is one loop: of several, memory would decide which is the outer one.
  bool has_ordered_rows(Unit unit) const {
    return walk_of(unit) == Walk::Any || loops_.leaves(reduced_.at(unit)).size() == 1;
  }

  Dim points(const std::vector<LoopId>& leaves, bool reduced) const {
    Dim count = 1;
    for (LoopId leaf : leaves) count = loops_.is_reduced(leaf) == reduced ? count * loops_.size(leaf) : count;
    return count;
  }

  // Whether the node may reduce what it reduces in this seat, and be read in another pass.
  bool rows_fit(const NodeSpace& space, const Seat& seat) const {
    const std::vector<LoopId> all = loops_.leaves(seat.placement);
    auto known = reduced_.find(seat.group);
    if (known == reduced_.end()) return true;
    if (space.reduces()) {
      std::vector<LoopId> wanted, there = loops_.leaves(known->second);
      for (size_t d = 0; d < space.sizes.size(); ++d) {
        if (!space.reduced[d]) continue;
        for (LoopId leaf : loops_.leaves(seat.placement[d])) wanted.push_back(leaf);
      }
      std::sort(wanted.begin(), wanted.end());
      std::sort(there.begin(), there.end());
      if (wanted != there) return false;
    }
    // Of few long rows, what reads a result is another kernel's work.
    return !loops_.has_reduced(seat.placement) || worth_many_passes(points(all, false), points(all, true));
  }

  // Whether every operand that this group computes is at hand, and no other one depends on the group.
  bool fits(const NodeSpace& space, const std::vector<Read>& reads, const Seat& seat) {
    if (units_.nodes(seat.group).size() >= options_.largest_group || !rows_fit(space, seat)) return false;
    if (!walks_alike(space.walk, walk_of(seat.group))) return false;
    for (const Read& read : reads) {
      if (read.unit == UnitGraph::kNone) continue;
      if (read.unit != seat.group) {
        if (units_.reaches(read.unit, seat.group)) return false;
        continue;
      }
      const std::optional<Placement> placement = placement_of(space, read);
      if (!placement || !agrees(*placement, seat.placement)) return false;
    }
    return true;
  }

  Seat beside_producers(const NodeSpace& space, std::vector<Read>& reads) {
    Seat seat;
    for (Read& read : reads) {
      std::optional<Placement> placement = placement_of(space, read);
      if (!placement || read.unit == seat.group) continue;
      placement = along_rows(space, std::move(*placement), read.unit);
      if (!placement) continue;
      Seat found{read.unit, std::move(*placement)};
      if (!fits(space, reads, found)) continue;
      if (seat.group == UnitGraph::kNone) {
        seat = std::move(found);
      } else if (merge(seat, found)) {
        for (Read& other : reads) {
          if (other.unit == found.group) other.unit = seat.group;
        }
      }
    }
    return seat;
  }

  // Two groups that one node reads become one, where their rows are the same.
  bool merge(const Seat& into, const Seat& from) {
    if (units_.nodes(into.group).size() + units_.nodes(from.group).size() >= options_.largest_group) return false;
    if (units_.reaches(into.group, from.group) || units_.reaches(from.group, into.group)) return false;
    if (!walks_alike(walk_of(into.group), walk_of(from.group))) return false;
    auto ours = reduced_.find(into.group), theirs = reduced_.find(from.group);
    const bool both = ours != reduced_.end() && theirs != reduced_.end();
    const bool of_points = loops_.has_reduced(into.placement);
    if (both && of_points != loops_.has_reduced(from.placement)) return false;
    // Values of rows: the rows themselves must be of one length.
    if (both && !of_points && !loops_.same_sizes(ours->second, theirs->second)) return false;
    if (!loops_.join(into.placement, from.placement, both)) return false;
    if (both && !of_points) loops_.join({ours->second}, {theirs->second}, true);
    if (theirs != reduced_.end() && !both) reduced_[into.group] = theirs->second;
    if (const Walk walk = walk_of(from.group); walk != Walk::Any) walks_[into.group] = walk;
    units_.merge(into.group, from.group);
    return true;
  }

  Seat beside_sibling(const NodeSpace& space, const std::vector<Read>& reads) {
    for (const Read& read : reads) {
      auto found = readers_.find(read.operand.root);
      if (read.operand.constant || read.apart || found == readers_.end()) continue;
      for (const Reader& reader : found->second) {
        const Type &theirs = reader.value->type, &ours = read.value->type;
        const GroupNode& beside = spaces_.at(reader.node);
        const bool alike = beside.space.sizes == space.sizes && theirs.sizes == ours.sizes &&
                           theirs.strides == ours.strides && resolve(reader.value).offset == read.operand.offset;
        if (!alike) continue;
        Seat seat{units_.unit_of(reader.node), beside.placement};
        if (fits(space, reads, seat)) return seat;
      }
    }
    return {};
  }

  // Values of a group that something outside it reads.
  std::unordered_set<const Value*> stored_values() const {
    std::unordered_set<const Value*> stored;
    auto mark = [&](const Value* value, Unit reader) {
      const Operand operand = resolve(value);
      if (repeated_.contains(operand.root)) return;
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

  // A reduction is worth a kernel of its own, and so is work on much memory; to join tensors ATen copies faster.
  bool is_large_enough(Unit unit) const {
    if (!groups_.contains(unit)) return false;
    const std::vector<const Node*>& nodes = units_.nodes(unit);
    if (nodes.size() >= options_.smallest_group || reduced_.contains(unit)) return true;
    const NodeSpace& space = spaces_.at(nodes.front()).space;
    return space.alone || (is_large_in_order(*nodes.front()) && space.moved.size() < 2 && !space.in_company);
  }

  std::vector<FusedGroup> build() {
    repeated_ = cheap_repeats(graph_, spaces_, [&](const Node* node) {
      const Unit unit = units_.unit_of(node);
      return unit != UnitGraph::kNone && is_large_enough(unit) ? unit : UnitGraph::kNone;
    });
    if (auto groups = build_all()) return std::move(*groups);
    repeated_.clear();  // a group was given up: its nodes read from memory what others might not have written
    return *build_all();
  }

  // None where values are repeated and a group that reads some was given up.
  std::optional<std::vector<FusedGroup>> build_all() {
    const std::unordered_set<const Value*> stored = stored_values();
    std::vector<FusedGroup> groups;
    std::unordered_set<Unit> done;
    for (const auto& node : graph_.nodes) {
      const Unit unit = units_.unit_of(node.get());
      if (!is_large_enough(unit) || !done.insert(unit).second) continue;
      FusedGroup group = build_group(in_order(unit), {placements_, loops_, stored, repeated_});
      if (group.outputs.empty()) continue;
      if (can_share_work(group.kernel) && has_ordered_rows(unit)) {
        groups.push_back(std::move(group));
      } else if (!repeated_.empty()) {
        return std::nullopt;
      }
    }
    return groups;
  }

  // Passes over few long rows would all be one thread's.
  static bool can_share_work(const LoopKernel& kernel) {
    if (!kernel.reduced || worth_many_passes(kernel.rows(), kernel.row_length())) return true;
    const RowPlan plan(kernel);
    return plan.passes == 1 || plan.chunks();
  }

  std::vector<GroupNode> in_order(Unit unit) const {
    std::vector<GroupNode> nodes;
    for (const Node* node : units_.nodes(unit)) nodes.push_back(spaces_.at(node));
    std::sort(nodes.begin(), nodes.end(),
              [&](const GroupNode& a, const GroupNode& b) { return position_.at(a.node) < position_.at(b.node); });
    return nodes;
  }

  const Graph& graph_;
  const FuseOptions& options_;
  UnitGraph units_;
  LoopTable loops_;
  Placements placements_;                                  // of the results of all members
  std::unordered_map<const Node*, GroupNode> spaces_;      // of all members
  std::unordered_map<Unit, std::vector<LoopId>> reduced_;  // of groups with rows: the loops along them
  std::unordered_map<Unit, Walk> walks_;                   // of groups that go along rows in order
  std::unordered_set<Unit> groups_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, std::vector<Reader>> readers_;
  std::unordered_set<const Value*> read_;      // by anything
  std::unordered_set<const Value*> repeated_;  // computed again by every reader
  Unit last_effect_ = UnitGraph::kNone;
};

}  // namespace

std::vector<FusedGroup> fuse(const Graph& graph, const FuseOptions& options) { return Fuser(graph, options).run(); }

}  // namespace firesteel
