// How a graph runs, in words: the graph as the runtime has it, and which of its nodes each kernel stands for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel_compiler.h"
#include "graph/graph.h"
#include "runtime/tiers.h"

namespace firesteel {

struct KernelPlan {
  std::string text;           // of its loops
  std::vector<size_t> nodes;  // of the graph, in order
  std::optional<KernelFacts> facts;
  RunCost cost;
};

struct RunPlan {
  Graph graph;
  Tier tier = Tier::Aten;
  std::vector<KernelPlan> kernels;  // none where ATen runs everything
  std::vector<RunCost> costs;       // of nodes outside kernels, as far as any has run while somebody profiled
  RunCost before;                   // by ATen, until code was there
};

// Decides once more what was decided when the program was made: for people who ask, not for calls.
RunPlan plan_run(const Graph& graph, const TieredProgram& program);

}  // namespace firesteel
