// Looks at what a value takes, and at who reads it.
#include "fuse/repeats.h"

#include "fuse/operand.h"
#include "fuse/size_math.h"

namespace firesteel {
namespace {

constexpr int64_t kFewOperations = 6;
constexpr int64_t kAnotherRead = 2;   // of memory as large as the value, in operations
constexpr int64_t kMuchSmaller = 16;  // than the value: what is read of it stays in the cache

class Repeats {
 public:
  Repeats(const Graph& graph, const std::unordered_map<const Node*, GroupNode>& members,
          const std::function<int32_t(const Node*)>& group_of)
      : graph_(graph), members_(members), group_of_(group_of) {}

  std::unordered_set<const Value*> find() {
    auto forbid = [&](const Value* value) { forbidden_.insert(resolve(value).root); };
    for (const Arg& result : graph_.outputs) result.each_value(forbid);
    for (const Mutation& mutation : graph_.mutations) forbid(mutation.updated);
    find_readers();
    // What turns out dear may be what another value counted on: until nothing changes.
    for (;;) {
      find_possible();
      if (forbid_dear()) continue;
      return possible_;
    }
  }

 private:
  struct Reader {
    const Node* node;
    const Value* value;
    Operand operand;
  };
  static constexpr int64_t kDear = kFewOperations + 1;

  void find_readers() {
    for (const auto& node : graph_.nodes) {
      if (is_mapped_view(*node)) continue;  // read by whoever reads the view
      node->each_input([&](const Value* value) {
        Operand operand = resolve(value);
        if (members_.contains(operand.root->def))
          readers_[operand.root].push_back({node.get(), value, std::move(operand)});
      });
    }
  }

  // Whether the reader can compute the value again at the points where it reads it.
  bool can_repeat(const Reader& reader) const {
    auto member = members_.find(reader.node);
    if (member == members_.end()) return false;
    const NodeSpace& space = member->second.space;
    return !space.wants_in_memory(reader.value) && slice_starts(reader.operand) &&
           (space.is_moved(reader.value) || reader.value->type.sizes == space.sizes);
  }

  // Values whose readers outside of the group can all repeat them, in kernels or in what kernels repeat.
  void find_possible() {
    possible_.clear();
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& maker = *graph_.nodes[i];
      if (!members_.contains(&maker) || maker.outputs.size() != 1) continue;
      const Value* value = maker.outputs[0].get();
      auto readers = readers_.find(value);
      if (readers == readers_.end() || forbidden_.contains(value)) continue;
      const int32_t home = group_of_(&maker);
      bool all = true, outside = false;
      for (const Reader& reader : readers->second) {
        const int32_t group = group_of_(reader.node);
        // One of the same kernel that others repeat is read there with it.
        const bool repeated = reader.node->outputs.size() == 1 && possible_.contains(reader.node->outputs[0].get());
        if (group >= 0 && group == home && !repeated) continue;
        outside = true;
        all = all && (group >= 0 || repeated) && can_repeat(reader);
      }
      if (all && outside) possible_.insert(value);
    }
  }

  bool forbid_dear() {
    const size_t before = forbidden_.size();
    for (const Value* value : possible_) {
      if (cost(value) > kFewOperations) forbidden_.insert(value);
    }
    return forbidden_.size() != before;
  }

  // Another kernel than the value's own writes it for that one to read, if for nobody else.
  bool is_stored_for(const Value* root, const Value* value) const {
    const int32_t home = group_of_(root->def);
    return home >= 0 && home != group_of_(value->def);
  }

  static int64_t points(const Value* value) { return estimate(product(value->type.sizes)); }

  // Operations to compute the value from memory that no kernel has to write for it.
  int64_t cost(const Value* value) const {
    auto found = members_.find(value->def);
    if (found->second.space.reduces() || !found->second.space.in_memory.empty()) return kDear;
    LoopKernel scratch;
    NoOperands operands(scratch);
    lower_node(*value->def, scratch, operands);
    int64_t total = 0;
    for (const LoopExpr& expr : scratch.exprs) {
      const bool dear = is_transcendental(expr.op) || expr.op == LoopOp::Div || expr.op == LoopOp::Sqrt ||
                        expr.op == LoopOp::LoadAt || expr.op == LoopOp::LoadNear || expr.op == LoopOp::Quotient;
      total += dear ? kDear : expr.op != LoopOp::Load && expr.op != LoopOp::Constant && expr.op != LoopOp::Size;
    }
    value->def->each_input([&](const Value* input) {
      Operand operand = resolve(input);
      if (operand.constant || !members_.contains(operand.root->def) || total >= kDear) return;
      const Value* root = operand.root;
      if (!possible_.contains(root) && is_stored_for(root, value)) {
        total += points(root) * kMuchSmaller <= points(value) ? 0 : kAnotherRead;
        return;
      }
      const bool again = possible_.contains(root) && can_repeat({value->def, input, std::move(operand)});
      total += again ? cost(root) : kDear;
    });
    return total;
  }

  const Graph& graph_;
  const std::unordered_map<const Node*, GroupNode>& members_;
  const std::function<int32_t(const Node*)>& group_of_;
  std::unordered_map<const Value*, std::vector<Reader>> readers_;  // of what members make
  std::unordered_set<const Value*> forbidden_, possible_;
};

}  // namespace

std::unordered_set<const Value*> cheap_repeats(const Graph& graph,
                                               const std::unordered_map<const Node*, GroupNode>& members,
                                               const std::function<int32_t(const Node*)>& group_of) {
  return Repeats(graph, members, group_of).find();
}

}  // namespace firesteel
