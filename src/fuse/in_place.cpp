// Looks at index maps and readers.
#include "fuse/in_place.h"

#include <algorithm>

#include "fuse/operand.h"

namespace firesteel {
namespace {

int32_t position(const std::vector<const Value*>& values, const Value* value) {
  auto found = std::find(values.begin(), values.end(), value);
  return found == values.end() ? -1 : static_cast<int32_t>(found - values.begin());
}

// Every point is read before it is written, and by nobody else.
bool same_points(const FusedGroup& group, const Overwrite& pair) {
  if (group.kernel.reduced) return false;
  const auto buffer = static_cast<int32_t>(group.inputs.size()) + pair.output;
  for (const LoopStore& store : group.kernel.stores) {
    if (store.buffer != buffer) continue;
    return std::all_of(group.kernel.exprs.begin(), group.kernel.exprs.end(), [&](const LoopExpr& expr) {
      return !is_load(expr.op) || expr.buffer != pair.input || (expr.op == LoopOp::Load && expr.map == store.map);
    });
  }
  return false;
}

bool only_the_group_reads(const Graph& graph, const FusedGroup& group, const Value* input) {
  for (const auto& node : graph.nodes) {
    if (is_mapped_view(*node)) continue;  // read by whoever reads the view
    bool reads = false;
    node->each_input([&](const Value* value) { reads = reads || resolve(value).root == input; });
    if (reads && std::find(group.nodes.begin(), group.nodes.end(), node.get()) == group.nodes.end()) return false;
  }
  return true;
}

// Among the graph's results the new value stands for the mutation alone, and the input for nothing.
bool only_the_mutation_gives(const Graph& graph, const Mutation& mutation) {
  int mentions = 0;
  for (const Arg& result : graph.outputs) {
    result.each_value([&](const Value* value) {
      const Value* root = resolve(value).root;
      mentions += root == mutation.updated ? 1 : root == mutation.input ? 2 : 0;
    });
  }
  for (const Mutation& other : graph.mutations) {
    if (other.input != mutation.input && resolve(other.updated).root == mutation.updated) ++mentions;
  }
  return mentions <= 1;
}

bool same_layout(const Value* a, const Value* b) {
  return a->type.dtype == b->type.dtype && a->type.sizes == b->type.sizes && a->type.strides == b->type.strides;
}

// Operators of others may give memory that they keep, under a storage made for the call.
bool gives_own_memory(const Node* maker) {
  if (!maker || !maker->op.is_aten()) return false;
  const std::string& name = maker->op.aten->operator_name().name;
  return name.starts_with("aten::") || name.starts_with("mkldnn::") || name == "firesteel::table_gradient" ||
         name == "firesteel::product" || name == "firesteel::convolution";
}

}  // namespace

std::vector<Overwrite> reuses(const FusedGroup& group) {
  std::vector<Overwrite> found;
  for (size_t o = 0; o < group.outputs.size(); ++o) {
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      const Overwrite pair{static_cast<int32_t>(o), static_cast<int32_t>(i)};
      const bool taken =
          std::any_of(found.begin(), found.end(), [&](const Overwrite& other) { return other.input == pair.input; });
      if (taken || !gives_own_memory(group.inputs[i]->def) || !same_layout(group.inputs[i], group.outputs[o]) ||
          !same_points(group, pair))
        continue;
      found.push_back(pair);
      break;
    }
  }
  return found;
}

std::vector<Overwrite> overwrites(const Graph& graph, const FusedGroup& group) {
  std::vector<Overwrite> found;
  for (const Mutation& mutation : graph.mutations) {
    // Where autograd watches, the write is its business.
    if (mutation.metadata_only || !mutation.under_no_grad) continue;
    const Overwrite pair{position(group.outputs, mutation.updated), position(group.inputs, mutation.input)};
    if (pair.output < 0 || pair.input < 0) continue;
    if (same_layout(mutation.input, mutation.updated) && same_points(group, pair) &&
        only_the_group_reads(graph, group, mutation.input) && only_the_mutation_gives(graph, mutation)) {
      found.push_back(pair);
    }
  }
  return found;
}

}  // namespace firesteel
