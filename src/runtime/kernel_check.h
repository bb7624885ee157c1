// Runs every kernel of a graph beside ATen, on the same inputs: finds the one that computes something else.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace firesteel {

struct KernelResult {
  bool is_backward = false;
  size_t kernel = 0;  // as RunPlan counts them
  at::Tensor native, aten;
};

// Adds what the kernels give to `found`.
void compare_kernels(const Graph& graph, const std::vector<at::Tensor>& inputs, bool is_backward,
                     std::vector<KernelResult>& found);

}  // namespace firesteel
