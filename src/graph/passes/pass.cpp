// The table of passes.
#include "graph/passes/pass.h"

#include "base/error.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/constant_folding.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/view_simplification.h"
#include "graph/verify.h"

namespace firesteel {

std::span<const Pass> all_passes() {
  static constexpr Pass kPasses[] = {
#define X(function, doc) {#function, doc, function},
      FIRESTEEL_PASSES(X)
#undef X
  };
  return kPasses;
}

bool run_pass(std::string_view name, Graph& graph) {
  for (const Pass& pass : all_passes()) {
    if (pass.name != name) continue;
    bool changed = pass.run(graph);
    if (auto rule = broken_rule(graph))
      FS_RAISE(InternalError, "pass {} broke graph '{}': {}", name, graph.name, *rule);
    return changed;
  }
  FS_RAISE(InternalError, "there is no pass named '{}'", name);
}

}  // namespace firesteel
