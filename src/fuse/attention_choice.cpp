// Looks for attention of float32 on the CPU.
#include "fuse/attention_choice.h"

#include <cstdlib>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

#include "base/error.h"
#include "graph/passes/purity.h"

namespace firesteel {

namespace {

bool is_left_to_aten() {
  const char* set = std::getenv("FIRESTEEL_ATTENTION");
  const std::string_view asked = set ? set : "";
  if (!asked.empty() && asked != "aten")
    FS_RAISE(Error, "FIRESTEEL_ATTENTION is '{}'\n  try: aten, or leave it unset", asked);
  return asked == "aten";
}

}  // namespace

void check_attention_setting() { is_left_to_aten(); }

bool choose_attention(Graph& graph) {
  if (is_left_to_aten()) return false;
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
