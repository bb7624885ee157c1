// Runs a function on fake tensors and records what it did as a functional ATen graph, with its backward if asked.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "aot/symbols.h"
#include "aot/view_replay.h"
#include "firesteel/graph_break.h"
#include "graph/graph.h"
#include "partition/partition.h"

namespace torch::autograd {
struct Node;
}

namespace firesteel {

// What a traced function gives back: its tensors, flat, and how they nest.
struct FunctionResult {
  std::vector<at::Tensor> tensors;
  Tree tree;
};
// The function to trace, on flat tensors. The language layer nests and flattens around it.
using FlatFunction = std::function<FunctionResult(const std::vector<at::Tensor>& inputs)>;

// Which node of autograd's graph a backward failed in, for those who want to know.
struct FailedBackward {
  bool locate = false;                // costs a hook on every node
  bool began = false;                 // the function itself was traced
  std::optional<uint64_t> node = {};  // its sequence number, where it was to be located
};

// A dimension of an input whose size may be another one at the next call.
struct DynamicDim {
  int32_t dim = 0;
  int64_t least = 2;  // sizes 0 and 1 have graphs of their own
  int64_t most = INT64_MAX;
  // In an earlier call, where it is open because it changed: tells sizes apart that are equal in this call by chance.
  std::optional<int64_t> before = std::nullopt;
  bool apart = false;  // from all sizes that are equal in this call
};

struct TraceOptions {
  bool grad = false;  // also run the backward and record it
  std::string name = "graph";
  Tree input_tree;  // kept in the graph for printing and for nested calls
  // Runs the autograd engine's work; the Python layer releases the GIL around it. Null: just run it.
  std::function<void(const std::function<void()>&)> run_backward;
  // Sees every node of autograd's graph that is written in Python, before the backward runs. May be null.
  std::function<void(torch::autograd::Node&)> meet_python_node;
  // Where the graph break is put that the function asked for, and that ended the trace. May be null.
  std::optional<GraphBreak>* graph_break = nullptr;
  FailedBackward* failed_backward = nullptr;     // may be null
  std::vector<std::vector<DynamicDim>> dynamic;  // one an input, or none at all
  // Numbers and sizes that data gives are symbols of the graph; else they end the trace.
  bool takes_data_numbers = false, takes_data_sizes = false;
  DataHints* data_hints = nullptr;  // may be null
};

// The state outside the inputs that a trace depends on, and a replay must find again.
struct FIRESTEEL_API AmbientState {
  bool grad_mode = false;
  bool inference_mode = false;
  bool autocast_cpu = false, autocast_cuda = false;
  at::ScalarType autocast_cpu_dtype = at::kBFloat16, autocast_cuda_dtype = at::kHalf;
  static AmbientState current();
  friend bool operator==(const AmbientState&, const AmbientState&) = default;
};

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// What a graph takes for granted about the memory of one argument, besides its type.
struct ArgumentFacts {
  int32_t duplicate_of = -1;    // the earlier argument that is the same tensor
  int32_t shares_storage = -1;  // the first earlier argument with the same storage
  int64_t storage_offset = 0;
  bool is_conj = false, is_neg = false;
  // The argument itself, where the function also reached it, or memory of it, without being handed it: the graph reads
  // the argument in both places and holds for this very tensor only. Held weakly: no other can take its address.
  std::optional<WeakTensor> also_captured;

  bool is_for(const at::Tensor& tensor) const {
    return !also_captured || also_captured->_unsafe_get_target() == tensor.unsafeGetTensorImpl();
  }
};

// The result of a trace. Without gradients the joint graph has forward outputs only.
//
// Forward outputs of the joint graph, in order: the function's results (as many as `result_tree` has leaves),
// the new values of changed inputs (one a mutation), and bases that several results are views of.
struct Trace {
  Joint joint;
  AmbientState ambient;
  size_t result_count = 0;
  Tree result_tree;
  // For each gradient output of the joint graph: the graph input it belongs to; and for each tangent: the forward
  // output.
  // ~i for one of `made_leaves`. With tangents and no gradients, all that gradients could reach is gone.
  std::vector<int32_t> gradient_inputs;
  std::vector<int32_t> tangent_outputs;
  std::vector<bool> result_requires_grad;
  std::vector<int32_t> made_leaves;  // results that gradients gather in: what `torch.ones(2, requires_grad=True)` gives
  std::vector<std::optional<ViewReplay>> result_views;  // of results that are views of inputs or of other outputs
  std::vector<ArgumentFacts> arguments;
  std::vector<SymbolOrigin> symbols;
  std::vector<ShapeGuard> shape_guards;  // over these; the bounds of a symbol are not among them
  std::weak_ptr<const void> life;        // ends with the last tensor of the trace: one that escaped keeps it
  // Over symbols that data gives: where a run finds that one fails, its results are of no use.
  std::vector<DataCondition> data_conditions;
};

// Inputs are real tensors; they are read for their metadata and never changed. Throws a TraceError (data_dependent, …)
// with the user's line, or whatever the function threw.
FIRESTEEL_API Trace trace(const FlatFunction& function, const std::vector<at::Tensor>& inputs,
                          const TraceOptions& options = {});

// True while this thread traces: what `is_compiling()` answers.
FIRESTEEL_API bool is_tracing();

// What stands for a real tensor in the trace that runs on this thread; one that is no argument becomes a captured
// input.
FIRESTEEL_API at::Tensor stand_in_for(const at::Tensor& real);

// While one lives, real tensors that the trace of this thread meets for the first time are constants: read anew at each
// call, but no gradient reaches them.
class FIRESTEEL_API ConstantCaptures {
 public:
  ConstantCaptures();
  ~ConstantCaptures();
  ConstantCaptures(const ConstantCaptures&) = delete;
  ConstantCaptures& operator=(const ConstantCaptures&) = delete;
  // Those met so far that require a gradient.
  std::vector<at::Tensor> without_gradient() const;

 private:
  bool outer_;
  size_t first_;
};

// A number that is an argument of the trace that runs on this thread, after those it knows; `real` is what torch makes
// of a number. The compiled graph takes such tensors after its other arguments, in this order.
FIRESTEEL_API at::Tensor number_stand_in(const at::Tensor& real);

// The sizes of the trace that runs on this thread; null where none does.
FIRESTEEL_API Symbols* trace_symbols();
// A number that is a size of the trace that runs on this thread, and an argument as of number_stand_in().
FIRESTEEL_API Dim number_symbol(int64_t hint, int64_t least);

// True for tensors that stand for a value of a trace, running or ended.
FIRESTEEL_API bool is_traced_tensor(const at::Tensor& tensor);
// True for tensors with a tangent of forward-mode differentiation: no graph computes on with it.
inline bool has_tangent(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->autograd_meta() && tensor._fw_grad(/*level=*/0).defined();
}

// Asked for the user's source line at each recorded operator. Installed by the language layer; null gives no lines.
using SourceProvider = SourceRef (*)();
FIRESTEEL_API void set_source_provider(SourceProvider provider);

// Counters for tests and benchmarks: how each recorded operator found its shape.
struct TraceCounters {
  uint64_t recorded = 0, rule = 0, cpp_meta = 0, python_meta = 0, zero_run = 0;
  std::map<std::string, uint64_t> slow;  // operators whose shape came from Python or a run on zeros
};
FIRESTEEL_API TraceCounters trace_counters();
FIRESTEEL_API void reset_trace_counters();

}  // namespace firesteel
