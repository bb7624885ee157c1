// Loads, expressions and stores of a group, over the loops that its values lie in.
#include "fuse/group_builder.h"

#include "base/error.h"
#include "fuse/operand.h"
#include "fuse/pointwise_rules.h"

namespace firesteel {
namespace {

class GroupBuilder {
 public:
  GroupBuilder(const Placements& placements, const LoopTable& loops) : placements_(placements), loops_(loops) {}

  FusedGroup build(std::vector<const Node*> nodes, const std::unordered_set<const Value*>& stored) {
    group_.nodes = std::move(nodes);
    for (LoopId loop : loops_.leaves(placements_.at(output(*group_.nodes.front())))) {
      dimension_.emplace(loop, group_.kernel.sizes.size());
      group_.kernel.sizes.push_back(loops_.size(loop));
    }
    for (const Node* node : group_.nodes) {
      auto operand = [&](const Value* value) { return read(*node, value); };
      const std::optional<ExprId> result = lower_pointwise(*node, group_.kernel, operand);
      FS_CHECK(result, "`{}` was put in a group and has no loop form", node->op.str());
      computed_.emplace(output(*node), *result);
    }
    for (const Node* node : group_.nodes) {
      if (stored.contains(output(*node))) store(output(*node));
    }
    group_.kernel.settle_loops();
    return std::move(group_);
  }

 private:
  static const Value* output(const Node& node) { return node.outputs[0].get(); }

  ExprId read(const Node& node, const Value* value) {
    const Operand operand = resolve(value);
    if (auto here = computed_.find(operand.root); here != computed_.end()) return here->second;
    if (operand.constant) return constant(*operand.constant, *element_of(operand.root->type.dtype));
    IndexMap map = map_into(value->type, placements_.at(output(node)), output(node)->type);
    map.offset = operand.offset;
    return group_.kernel.load(buffer(operand.root), std::move(map));
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

  // How memory laid out as `type` is read at the points of a value of type `shape`, broadcast to it.
  IndexMap map_into(const Type& type, const Placement& placement, const Type& shape) const {
    IndexMap map;
    map.strides.assign(group_.kernel.sizes.size(), 0);
    const size_t missing = shape.sizes.size() - type.sizes.size();
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (type.sizes[d] != shape.sizes[d + missing]) continue;  // broadcast: stays at 0
      int64_t stride = type.strides[d].number();
      const std::vector<LoopId> loops = loops_.leaves(placement[d + missing]);
      for (size_t i = loops.size(); i-- > 0;) {
        map.strides[dimension_.at(loops[i])] = stride;
        stride *= loops_.size(loops[i]);
      }
    }
    return map;
  }

  void store(const Value* value) {
    group_.outputs.push_back(value);
    group_.kernel.buffers.push_back(*element_of(value->type.dtype));
    const auto target = static_cast<int32_t>(group_.kernel.buffers.size()) - 1;
    group_.kernel.stores.push_back(
        {computed_.at(value), target, map_into(value->type, placements_.at(value), value->type)});
  }

  const Placements& placements_;
  const LoopTable& loops_;
  FusedGroup group_;
  std::unordered_map<LoopId, size_t> dimension_;
  std::unordered_map<const Value*, ExprId> computed_;
  std::unordered_map<const Value*, int32_t> buffer_of_;
};

}  // namespace

FusedGroup build_group(std::vector<const Node*> nodes, const Placements& placements, const LoopTable& loops,
                       const std::unordered_set<const Value*>& stored) {
  return GroupBuilder(placements, loops).build(std::move(nodes), stored);
}

}  // namespace firesteel
