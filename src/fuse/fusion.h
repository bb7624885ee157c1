// Groups pointwise nodes of equal index space into kernels, and puts the graph in an order that runs them.
//
// The rule: a node joins the kernel of its producer (or of a sibling that reads the same memory in the same shape)
// where every operand that the kernel computes is at the same point of the index space, and no path leaves the kernel
// and comes back. Values that anything outside the kernel reads are stored, all others stay in registers; what takes
// less to compute than to write and read (repeats.h) its readers compute again. So the groups belong together: all of
// them run as kernels, or none.
#pragma once

#include <span>

#include "fuse/index_check.h"
#include "fuse/loop_ir.h"
#include "graph/graph.h"

namespace firesteel {

struct FuseOptions {
  size_t smallest_group = 2;  // nodes; one alone runs as well in ATen and costs no compilation
  size_t largest_group = 64;  // nodes; beyond it registers spill
};

struct FusedGroup {
  std::vector<const Node*> nodes;     // in graph order
  std::vector<const Value*> inputs;   // the kernel's buffers: first those it reads,
  std::vector<const Value*> outputs;  // then those it writes
  std::vector<IndexCheck> checks;     // what must hold before it may run
  LoopKernel kernel;
};

FIRESTEEL_API std::vector<FusedGroup> fuse(const Graph& graph, const FuseOptions& options = {});

// One step of the graph as it runs: a node, or a group in place of its nodes.
struct FusedStep {
  const Node* node = nullptr;
  const FusedGroup* group = nullptr;
};

// An order in which everything stands behind what it reads; nodes with effects keep their order. Views and constants
// that only the groups read are left out.
std::vector<FusedStep> schedule(const Graph& graph, std::span<const FusedGroup* const> groups);

}  // namespace firesteel
