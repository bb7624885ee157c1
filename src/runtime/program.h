// A graph made ready to run: operators with their arguments laid out, values in slots, each freed at its last use.
#pragma once

#include "fuse/fusion.h"
#include "fuse/in_place.h"
#include "graph/data_symbols.h"
#include "graph/graph.h"
#include "runtime/kernel_call.h"
#include "runtime/run_costs.h"
#include "runtime/run_counters.h"
#include "shapes/open_sizes.h"

namespace firesteel {

struct ProgramOptions {
  bool native = false;  // fuse pointwise operators into compiled kernels; what has no kernel stays with ATen
  FuseOptions fuse;
  // Compare every result's layout with the recorded one: finds shape rules that are wrong. FIRESTEEL_CHECK_SHAPES=1
  // does it too.
  bool check_shapes = false;
};

class FIRESTEEL_API Program {
 public:
  // Copies what it needs; the graph need not outlive it.
  explicit Program(const Graph& graph, const ProgramOptions& options = {});
  // With kernels for these groups, whose code is still to come: provide() it before the first run.
  Program(const Graph& graph, std::span<const FusedGroup> groups);
  void provide(std::span<const KernelFunction> functions);  // one a group

  // Inputs in the graph's order. Results in the order of the graph's outputs; undefined where an output is None.
  // Runs in whatever autograd and autocast state the caller has set.
  // `symbols`: the values of the sizes that the graph leaves open.
  // `found`: where the values of all symbols go, with those that the run has found out (graph/data_symbols.h).
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, std::span<const int64_t> symbols = {},
                              std::vector<int64_t>* found = nullptr) const;

  // Whether its kernels can run for these sizes: none has a loop without steps, or of more than fit 31 bits.
  bool fits(std::span<const int64_t> symbols) const;

  size_t input_count() const { return input_count_; }
  const RunCounters& each_run() const { return each_run_; }  // what one run does
  ProgramCosts costs() const;                                // of runs while somebody profiled

 private:
  static constexpr int32_t kNoSlot = -1;

  // One argument: a constant, a slot (moved out of at its last use), a list of slots, or sizes that symbols give.
  struct Argument {
    enum class Kind : uint8_t { Constant, Slot, List, OptionalList, Size, Number, Sizes } kind = Kind::Constant;
    bool last_use = false;
    int32_t slot = kNoSlot;
    std::vector<int32_t> slots;
    std::vector<int32_t> sizes;  // places among the program's sizes
    c10::IValue constant;
  };
  // An operator or a kernel. A kernel's arguments are slots, each in one place only.
  struct Instruction {
    std::optional<c10::OperatorHandle> op;
    std::shared_ptr<KernelCall> kernel;
    std::vector<Argument> arguments;
    std::vector<Return> returns;
    std::vector<int32_t> results;  // slot a result, kNoSlot where nobody reads it
    std::vector<int32_t> frees;    // slots in lists whose last use this is
    std::string name;              // for those who watch
    bool is_of_user = false;       // an operator that is not torch's own
    size_t origin = 0;             // the number of its group, or of its node in the graph
    std::vector<Type> expected;    // one a result, where shapes are checked
    std::vector<Overwrite>
        overwrites;                   // results that a kernel writes over arguments, where the call's memory allows it
    std::vector<Overwrite> reuses;    // the same for arguments that the graph made, at their last use
    std::vector<int32_t> last_saved;  // inputs of role Saved that nothing reads later
    std::vector<DataSymbol> finds;    // symbols that it finds out,
    std::vector<int32_t> tells;       // and the sizes that have a value from then on
  };
  struct Output {
    int32_t slot = kNoSlot;
    bool last_use = false;
  };

  int32_t slot_for(const Value* value);
  Argument lay_out(const Arg& arg, const c10::Argument& schema);
  int32_t add_size(const Dim& dim);
  void add_call(const Node& node, size_t number);
  void begin(const Graph& graph);
  void finish(const Graph& graph);
  std::shared_ptr<KernelCall> add_kernel(const Graph& graph, const FusedGroup& group);
  void add_fused(const Graph& graph, std::span<const FusedGroup* const> groups);
  static bool may_refuse(const Instruction& instruction);
  void mark_last_uses();
  // What stays the same during a run.
  struct Run {
    std::span<const void* const> shared;  // memory that more than one input lies in, sorted
    std::span<const int64_t> symbols;
    std::vector<int64_t> sizes;  // of all arguments that symbols give
    std::vector<int64_t> found;  // all symbols, where the run finds some out; `symbols` is this
  };
  void execute(const Instruction& instruction, std::vector<at::Tensor>& slots, torch::jit::Stack& stack,
               Run& run) const;
  void run_watched(std::vector<at::Tensor>& slots, torch::jit::Stack& stack, Run& run) const;
  void run_measured(size_t index, std::vector<at::Tensor>& slots, torch::jit::Stack& stack, Run& run) const;
  void plan_data_sizes();
  void find_symbols(const Instruction& instruction, const torch::jit::Stack& results, Run& run) const;
  static void check_layout(const Instruction& instruction, size_t result, const at::Tensor& tensor, const Run& run);
  static void execute_kernel(const Instruction& instruction, std::vector<at::Tensor>& slots, const Run& run);
  std::vector<const void*> shared_storages(const std::vector<at::Tensor>& inputs) const;

  size_t input_count_ = 0;
  size_t slot_count_ = 0;
  std::unordered_map<const Value*, int32_t> slot_of_;  // while being built
  std::vector<Dim> dims_;                              // while being built
  std::optional<OpenSizes> sizes_;
  std::vector<Dim> loop_dims_;       // while being built
  std::optional<DimProgram> loops_;  // of kernels for open sizes, and how long their rows are
  size_t loop_count_ = 0;
  std::vector<Dim> data_dims_;  // of all sizes, where the run finds some out
  std::vector<Instruction> instructions_;
  std::vector<std::shared_ptr<KernelCall>> kernels_;  // one a group, until their code is there
  std::vector<Output> outputs_;
  std::vector<int32_t> saved_;       // inputs of role Saved
  std::vector<int32_t> unread_;      // inputs that nothing reads
  std::shared_ptr<RunCosts> costs_;  // one row an instruction
  RunCounters each_run_;
  bool check_shapes_ = false;
  bool overwrites_ = false;  // some instruction may
};

}  // namespace firesteel
