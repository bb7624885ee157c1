// Loads, expressions and stores of a group, over the loops that its values lie in.
#include "fuse/group_builder.h"

#include "base/error.h"
#include "fuse/lookup_rules.h"
#include "fuse/operand.h"
#include "fuse/piece_rules.h"
#include "fuse/size_math.h"
#include "fuse/window_rules.h"

namespace firesteel {
namespace {

class GroupBuilder {
 public:
  explicit GroupBuilder(const GroupSetting& setting)
      : placements_(setting.placements), loops_(setting.loops), stored_(setting.stored), repeated_(setting.repeated) {}

  FusedGroup build(const std::vector<GroupNode>& nodes) {
    add_loops(nodes);
    for (const GroupNode& member : nodes) {
      group_.nodes.push_back(member.node);
      MemberOperands operands(*this, member);
      const std::vector<ExprId> results = lower_node(*member.node, group_.kernel, operands);
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i] != kNoExpr) computed_.emplace(member.node->outputs[i].get(), results[i]);
      }
    }
    for (const GroupNode& member : nodes) {
      for (const auto& output : member.node->outputs) {
        if (stored_.contains(output.get())) store(output.get());
      }
    }
    const bool from_end =
        std::any_of(nodes.begin(), nodes.end(), [](const GroupNode& n) { return n.space.walk == Walk::FromEnd; });
    if (from_end) group_.kernel.walk_back();
    group_.kernel.settle_loops();
    return std::move(group_);
  }

 private:
  class MemberOperands final : public Operands {
   public:
    MemberOperands(GroupBuilder& group, const GroupNode& member) : group_(group), member_(member) {}
    ExprId value(const Value* value) override { return group_.read(member_, value); }
    ExprId index(size_t dim) override { return group_.index(member_, dim); }
    ExprId look_up(const Lookup& lookup, ExprId further) override { return group_.look_up(member_, lookup, further); }
    ExprId piece(const Piece& piece, ExprId inside) override { return group_.piece(member_, piece, inside); }
    ExprId window(const WindowPlace& place, ExprId inside) override { return group_.window(member_, place, inside); }
    ExprId pixel(const Value* picture, ExprId row, ExprId column) override {
      return group_.pixel(member_, picture, row, column);
    }

   private:
    GroupBuilder& group_;
    const GroupNode& member_;
  };

  // Those of a member that has them all: loops over rows first, then those along a row.
  void add_loops(const std::vector<GroupNode>& nodes) {
    std::vector<LoopId> all;
    for (const GroupNode& member : nodes) {
      std::vector<LoopId> loops = loops_.leaves(member.placement);
      if (loops.size() > all.size()) all = std::move(loops);
    }
    for (bool reduced : {false, true}) {
      for (LoopId loop : all) {
        if (loops_.is_reduced(loop) != reduced) continue;
        dimension_.emplace(loop, group_.kernel.sizes.size());
        group_.kernel.sizes.push_back(loops_.size(loop));
        group_.kernel.reduced += reduced;
      }
    }
  }

  ExprId read(const GroupNode& member, const Value* value) {
    const Operand operand = resolve(value);
    auto here = computed_.find(operand.root);
    if (here != computed_.end() && member.shift.empty()) return here->second;
    if (operand.constant) return constant(*operand.constant, *element_of(operand.root->type.dtype));
    if (repeated_.contains(operand.root)) return repeat(member, operand);
    FS_CHECK(here == computed_.end(), "a kernel cannot read at other points what it computes");
    const size_t first = member.space.first_dim(value);
    IndexMap map = map_into(value->type, member.placement, member.space.sizes, first);
    map.offset = operand.offset;
    for (size_t d = 0; d < value->type.sizes.size() && !member.shift.empty(); ++d) {
      if (value->type.sizes[d] == member.space.sizes[d + first])
        map.offset = map.offset + member.shift[d + first] * value->type.strides[d] * -1;
    }
    if (member.inside == kNoExpr) return group_.kernel.load(buffer(operand.root), std::move(map));
    return group_.kernel.load_if(buffer(operand.root), std::move(map), member.inside);
  }

  // Another group's node, at the points of this member.
  ExprId repeat(const GroupNode& member, const Operand& operand) {
    const Node& node = *operand.root->def;
    GroupNode again{&node, *node_space(node), member.placement, member.shift, member.inside};
    if (!operand.views.empty()) {
      const std::vector<Dim> starts = *slice_starts(operand);
      again.shift.resize(starts.size(), 0);
      for (size_t d = 0; d < starts.size(); ++d) again.shift[d] = again.shift[d] + starts[d] * -1;
    }
    MemberOperands operands(*this, again);
    return lower_node(node, group_.kernel, operands).front();
  }

  ExprId index(const GroupNode& member, size_t dim) {
    IndexMap map;
    map.strides.assign(group_.kernel.sizes.size(), 0);
    add_strides(map, member.placement[dim], 1);
    if (!member.shift.empty()) map.offset = member.shift[dim] * -1;
    return group_.kernel.index(std::move(map));
  }

  ExprId piece(const GroupNode& member, const Piece& piece, ExprId inside) {
    GroupNode part{nullptr, NodeSpace{piece.value->type.sizes, {}}, {}, {}, inside};
    if (member.inside != kNoExpr) part.inside = group_.kernel.op(LoopOp::And, member.inside, inside);
    for (size_t d = 0; d < piece.along.size(); ++d) {
      part.placement.push_back(member.placement[piece.along[d]]);
      part.shift.push_back(piece.start[d] + (member.shift.empty() ? Dim(0) : member.shift[piece.along[d]]));
    }
    return read(part, piece.value);
  }

  ExprId look_up(const GroupNode& member, const Lookup& lookup, ExprId further) {
    group_.checks.push_back(check_of(*member.node, lookup, [this](const Value* root) { return buffer(root); }));
    const Operand table = resolve(lookup.table);
    IndexMap map;
    map.strides.assign(group_.kernel.sizes.size(), 0);
    map.offset = table.offset;
    for (size_t d = 0; d < lookup.along.size(); ++d) {
      if (lookup.along[d]) add_strides(map, member.placement[*lookup.along[d]], lookup.table->type.strides[d]);
    }
    return group_.kernel.load_at(buffer(table.root), std::move(map), further);
  }

  ExprId window(const GroupNode& member, const WindowPlace& place, ExprId inside) {
    const Operand operand = resolve(place.value);
    IndexMap map;
    map.strides.assign(group_.kernel.sizes.size(), 0);
    map.offset = operand.offset;
    for (size_t d = 0; d < place.step.size(); ++d) {
      const Dim& stride = place.value->type.strides[d];
      add_strides(map, member.placement[d], stride * place.step[d]);
      map.offset = map.offset + stride * place.start[d];
    }
    const int32_t from = buffer(operand.root);
    return inside == kNoExpr ? group_.kernel.load(from, std::move(map))
                             : group_.kernel.load_if(from, std::move(map), inside);
  }

  ExprId pixel(const GroupNode& member, const Value* picture, ExprId row, ExprId column) {
    const Operand operand = resolve(picture);
    const std::vector<Dim>& strides = picture->type.strides;
    IndexMap map;
    map.strides.assign(group_.kernel.sizes.size(), 0);
    map.offset = operand.offset;
    for (size_t d = 0; d + 2 < strides.size(); ++d) add_strides(map, member.placement[d], strides[d]);
    LoopKernel& kernel = group_.kernel;
    const ExprId further =
        kernel.op(LoopOp::Mul, kernel.cast(row, Element::I64), kernel.size(strides[strides.size() - 2]));
    return kernel.load_near(buffer(operand.root), std::move(map), further, column);
  }

  ExprId constant(const at::Scalar& number, Element type) {
    LoopKernel& kernel = group_.kernel;
    const Element math = computed_as(type);
    if (!is_float(type))
      return kernel.cast(kernel.integer(math, math == Element::Bool ? number.to<bool>() : number.to<int64_t>()), type);
    return kernel.cast(kernel.number(math, math == Element::F32 ? number.to<float>() : number.to<double>()), type);
  }

  int32_t buffer(const Value* root) {
    auto [known, is_new] = buffer_of_.emplace(root, static_cast<int32_t>(group_.inputs.size()));
    if (is_new) {
      group_.inputs.push_back(root);
      group_.kernel.buffers.push_back(*element_of(root->type.dtype));
    }
    return known->second;
  }

  // Steps along a dimension, by the loops that it is made of.
  void add_strides(IndexMap& map, const std::vector<LoopId>& dim, Dim stride) const {
    const std::vector<LoopId> loops = loops_.leaves(dim);
    for (size_t i = loops.size(); i-- > 0;) {
      map.strides[dimension_.at(loops[i])] = stride;
      stride = stride * loops_.size(loops[i]);
    }
  }

  // How memory laid out as `type` is read at the points of an index space, broadcast to it from dimension `first` on.
  IndexMap map_into(const Type& type, const Placement& placement, const std::vector<Dim>& sizes, size_t first) const {
    IndexMap map;
    map.strides.assign(group_.kernel.sizes.size(), 0);
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (type.sizes[d] != sizes[d + first]) continue;  // broadcast: stays at 0
      add_strides(map, placement[d + first], type.strides[d]);
    }
    return map;
  }

  void store(const Value* value) {
    group_.outputs.push_back(value);
    group_.kernel.buffers.push_back(*element_of(value->type.dtype));
    const auto target = static_cast<int32_t>(group_.kernel.buffers.size()) - 1;
    const Placement& placement = placements_.at(value);
    const bool per_row = group_.kernel.reduced > 0 && !loops_.has_reduced(placement);
    group_.kernel.stores.push_back(
        {computed_.at(value), target, map_into(value->type, placement, value->type.sizes, 0), per_row});
  }

  const Placements& placements_;
  const LoopTable& loops_;
  const std::unordered_set<const Value*>&stored_, &repeated_;
  FusedGroup group_;
  std::unordered_map<LoopId, size_t> dimension_;
  std::unordered_map<const Value*, ExprId> computed_;
  std::unordered_map<const Value*, int32_t> buffer_of_;
};

}  // namespace

FusedGroup build_group(const std::vector<GroupNode>& nodes, const GroupSetting& setting) {
  return GroupBuilder(setting).build(nodes);
}

}  // namespace firesteel
