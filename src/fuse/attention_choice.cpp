// Looks for attention of float32 on the CPU.
#include "fuse/attention_choice.h"

#include <cstdlib>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

#include "graph/passes/purity.h"

namespace firesteel {

bool choose_attention(Graph& graph) {
  const char* set = std::getenv("FIRESTEEL_ATTENTION");
  if (set && std::string_view(set) == "aten") return false;
  static const auto ours = c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::attention", "");
  bool changed = false;
  for (const auto& node : graph.nodes) {
    if (!node->op.is_aten() || !is_aten_op(*node, "_scaled_dot_product_flash_attention_for_cpu")) continue;
    const Arg& query = node->args[0];
    if (query.kind != Arg::Kind::Value || query.value->type.dtype != at::kFloat) continue;
    node->op.aten.emplace(ours);
    changed = true;
  }
  return changed;
}

}  // namespace firesteel
