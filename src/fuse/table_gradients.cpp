// Looks for plain embedding gradients.
#include "fuse/table_gradients.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "fuse/operand.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

// grad (0), indices (1), rows of the table (2), padding (3), whether to scale by frequency (4)
bool is_plain(const Node& node) {
  if (!is_aten_op(node, "embedding_dense_backward")) return false;
  const Arg &grad = node.args[0], &scale = node.args[4];
  if (grad.kind != Arg::Kind::Value || !is_loopable(grad.value->type) || node.args[2].kind != Arg::Kind::Const)
    return false;
  const auto dtype = grad.value->type.dtype;
  return (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16) && scale.kind == Arg::Kind::Const &&
         scale.constant.isBool() && !scale.constant.toBool();
}

}  // namespace

bool choose_table_gradients(Graph& graph) {
  static const auto ours = c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::table_gradient", "");
  bool changed = false;
  for (const auto& node : graph.nodes) {
    if (!node->op.is_aten() || !is_plain(*node)) continue;
    node->op.aten.emplace(ours);
    node->args.pop_back();
    changed = true;
  }
  return changed;
}

}  // namespace firesteel
