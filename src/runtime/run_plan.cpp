// Fuses a graph again, as TieredProgram did, and keeps what people want to know of it.
#include "runtime/run_plan.h"

#include <unordered_map>

#include "fuse/fusion.h"

namespace firesteel {

RunPlan plan_run(const Graph& graph, const TieredProgram& program) {
  const Tier tier = program.tier();
  const Graph* frozen = tier == Tier::Aten ? nullptr : program.frozen_graph();
  RunPlan plan{(frozen ? *frozen : graph).clone(), tier, {}, {}, program.cost_before()};
  ProgramCosts costs = program.costs();
  plan.costs = std::move(costs.nodes);
  if (plan.tier == Tier::Aten) return plan;
  prepare_for_native(plan.graph);
  std::unordered_map<const Node*, size_t> index;
  for (const auto& node : plan.graph.nodes) index.emplace(node.get(), index.size());
  for (const FusedGroup& group : fuse(plan.graph, fuse_options())) {
    KernelPlan& kernel = plan.kernels.emplace_back();
    kernel.text = group.kernel.str();
    for (const Node* node : group.nodes) kernel.nodes.push_back(index.at(node));
    kernel.facts = kernel_facts(group.kernel);
    if (plan.kernels.size() <= costs.kernels.size()) kernel.cost = costs.kernels[plan.kernels.size() - 1];
  }
  return plan;
}

}  // namespace firesteel
