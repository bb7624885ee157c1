// Looks at what a value takes, and at who reads it.
#include "fuse/repeats.h"

#include <algorithm>

#include "fuse/operand.h"

namespace firesteel {
namespace {

constexpr int64_t kFewOperations = 6;

class Repeats {
 public:
  Repeats(const std::unordered_map<const Node*, GroupNode>& members,
          const std::function<int32_t(const Node*)>& group_of)
      : members_(members), group_of_(group_of) {}

  std::unordered_set<const Value*> find(const Graph& graph) {
    std::unordered_map<const Value*, bool> allowed;  // values read from outside, and whether all readers can repeat
    auto forbid = [&](const Value* value) { allowed[resolve(value).root] = false; };
    for (const Arg& result : graph.outputs) result.each_value(forbid);
    for (const Mutation& mutation : graph.mutations) forbid(mutation.updated);
    for (const auto& node : graph.nodes) {
      if (is_mapped_view(*node)) continue;  // read by whoever reads the view
      node->each_input([&](const Value* value) {
        const Operand operand = resolve(value);
        const Node* maker = operand.root->def;
        if (!maker || !members_.contains(maker)) return;
        const int32_t here = group_of_(node.get());
        if (here >= 0 && here == group_of_(maker)) return;
        auto [known, is_new] = allowed.emplace(operand.root, true);
        known->second = known->second && here >= 0 && operand.views.empty() &&
                        members_.at(node.get()).space.sizes == members_.at(maker).space.sizes;
      });
    }
    std::unordered_set<const Value*> result;
    for (const auto& [value, can_repeat] : allowed) {
      if (can_repeat && cost(value) <= kFewOperations) result.insert(value);
    }
    return result;
  }

 private:
  static constexpr int64_t kDear = kFewOperations + 1;

  // Operations to compute the value from memory that no kernel has to write for it.
  int64_t cost(const Value* value) const {
    auto found = members_.find(value->def);
    if (found == members_.end() || found->second.space.reduces() || value->def->outputs.size() != 1) return kDear;
    LoopKernel scratch;
    NoOperands operands(scratch);
    lower_node(*value->def, scratch, operands);
    int64_t total = 0;
    for (const LoopExpr& expr : scratch.exprs) {
      const bool dear = is_transcendental(expr.op) || expr.op == LoopOp::Div || expr.op == LoopOp::Sqrt;
      total += dear ? kDear : expr.op != LoopOp::Load && expr.op != LoopOp::Constant;
    }
    value->def->each_input([&](const Value* input) {
      const Operand operand = resolve(input);
      if (!operand.constant && operand.root->def && members_.contains(operand.root->def)) total += kDear;
    });
    return total;
  }

  const std::unordered_map<const Node*, GroupNode>& members_;
  const std::function<int32_t(const Node*)>& group_of_;
};

}  // namespace

std::unordered_set<const Value*> cheap_repeats(const Graph& graph,
                                               const std::unordered_map<const Node*, GroupNode>& members,
                                               const std::function<int32_t(const Node*)>& group_of) {
  return Repeats(members, group_of).find(graph);
}

}  // namespace firesteel
