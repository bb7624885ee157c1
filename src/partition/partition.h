// Cuts a joint forward-backward graph in two, choosing what to save and what to compute again.
//
// The choice is a minimum cut: a value's price is its bytes, values that are costly or unsafe to compute again
// (matrix products, convolutions, random draws) must be saved or be cheap to reach from something saved.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// A joint graph: inputs are the arguments, captured tensors and then tangents; outputs are `forward_outputs` results of
// the forward part (with the values of `mutations` reachable from it), then one gradient for each differentiable input
// (Arg::None where no gradient reaches it).
struct Joint {
  Graph graph;
  size_t forward_outputs = 0;
};

struct PartitionOptions {
  // How freely the backward pass may compute values again. None: save what the backward reads, as eager does.
  // Cheap: pointwise and view operators whose inputs are saved anyway. MinCut: the cheapest cut in bytes.
  enum class Recompute : uint8_t { None, Cheap, MinCut };
  Recompute recompute = Recompute::MinCut;
};

struct Partitioned {
  Graph forward;   // outputs: the joint's forward outputs, then the saved values; holds the joint's mutations
  Graph backward;  // inputs: the saved values (role Saved), then the tangents; outputs: the gradients
  size_t forward_outputs = 0;
  // For each saved value: the index of the forward input it is, or -1 where it is computed.
  std::vector<int64_t> saved_input;
};

FIRESTEEL_API Partitioned partition(const Joint& joint, const PartitionOptions& options = {});

}  // namespace firesteel
