// Collects one trace: the graph under construction, stand-ins for real tensors, and what went wrong.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "aot/autograd_nodes.h"
#include "aot/fake_tensor.h"
#include "aot/op_plan.h"
#include "aot/random_states.h"
#include "aot/symbols.h"
#include "aot/trace.h"
#include "graph/graph.h"

namespace firesteel {

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  struct StandIn {
    at::Tensor real;           // kept alive: the map is keyed by its identity
    at::Tensor functional;     // what the function sees
    Value* value = nullptr;    // the graph input; null for a captured view of another stand-in
    at::Tensor leaf;           // what gradients are taken for; undefined where none is needed
    bool is_constant = false;  // no gradient reaches it
    bool is_view = false;      // shares the memory of an earlier stand-in, which carries any write
    AutogradNodePtr history;   // grad_fn of `functional` before anything is written to it
  };

  explicit Recorder(std::string name);

  // The recorder of the trace that runs on this thread, or null.
  static Recorder* current();

  // The dimensions of a tensor whose size may be another one at the next call, before its stand-in is made.
  void expect_sizes(const at::Tensor& real, std::vector<DynamicDim> dims) {
    dynamic_[real.unsafeGetTensorImpl()] = std::move(dims);
  }
  // A number that the function was given, as a size: its value is that of an argument made for it.
  Dim number_symbol(int64_t hint, int64_t least);
  // A functional stand-in for a real tensor: made once a tensor, an input of the graph.
  at::Tensor stand_in(const at::Tensor& real, InputRole role);
  // A stand-in for a constant the function made itself; its data may be read, and an output of it must be a copy.
  at::Tensor fresh_constant(const at::Tensor& real);
  // A number that the function was given and that may be another one at the next call.
  at::Tensor number_stand_in(const at::Tensor& real);
  size_t number_count() const { return numbers_; }
  // The graph input for a real tensor met below functionalization, where no stand-in can be swapped in.
  Value* captured_value(const at::Tensor& real);
  // A tensor that a factory made for real while tracing: a constant of the function, not a tensor it captured.
  void born_inside(const at::Tensor& real) { born_.push_back(real); }
  // True where two tensors of the call, one of them written to, share memory in a way that cannot be traced.
  std::string forbidden_write(const StandIn& written) const;
  // True where the function met this argument, or memory of it, without being handed it.
  bool reached_argument(const at::Tensor& real) const { return reached_.count(real.unsafeGetTensorImpl()) != 0; }
  bool is_fresh_constant(const Value* value) const { return fresh_constants_.count(value) != 0; }
  // The tensor of a constant that the function made itself; null for others.
  const at::Tensor* constant_of(const Value* value) const {
    auto found = fresh_constants_.find(value);
    return found == fresh_constants_.end() ? nullptr : &found->second;
  }

  Node* add_node(const OpPlan& plan, c10::ArrayRef<c10::IValue> args);
  Value* add_value(Node* node, const at::Tensor& tensor);
  // What a number stands for that torch made of a symbol; an IValue None for others.
  c10::IValue symbol_behind(const at::Tensor& number) const;
  // What stands in a graph for an argument of an operator.
  Arg arg_of(const c10::IValue& value);
  // Where the function has moved the generator itself: a node that does the same.
  void note_seeding(const at::Generator& generator);

  // Ends the trace's life: fakes that escaped say so from now on when touched.
  void close();
  bool active() const { return active_; }

  // Remembers an error that the function may swallow: a trace that met one must not succeed.
  [[noreturn]] void fail_data_dependent(const std::string& op);
  [[noreturn]] void fail_graph_break(GraphBreak asked);
  void rethrow_failure() const;
  bool has_read_data() const { return !data_dependent_failure_.empty(); }
  // What failed has been replaced by something that does not read data.
  void forget_data_read() { data_dependent_failure_.clear(); }

  const std::vector<StandIn>& stand_ins() const { return stand_ins_; }

  Graph graph;
  Phase phase = Phase::Forward;
  const std::shared_ptr<Symbols> symbols;
  RandomStates random_states;
  bool captures_are_constants = false;
  SourceRef named_place;                  // where operators come from, if it is not for the language layer to say
  std::optional<GraphBreak> graph_break;  // the first that the function asked for

 private:
  friend class RecorderScope;
  at::Tensor make_stand_in(const at::Tensor& real, InputRole role);
  std::optional<SymbolicLayout> symbolic_layout(const at::Tensor& real);
  Dim size_symbol(const at::Tensor& real, const DynamicDim& dim);
  int32_t argument_count() const;
  at::Tensor add_view(const at::Tensor& real, const StandIn& base, InputRole role);
  Arg arg_of(const at::Tensor& tensor);
  SourceRef source_here();
  Value* state_after(const Node* before, const Arg& generator, Type type);

  std::vector<StandIn> stand_ins_;
  std::unordered_map<const c10::TensorImpl*, size_t> by_real_;
  std::unordered_map<const c10::StorageImpl*, size_t> by_storage_;
  std::unordered_set<const c10::TensorImpl*> reached_;
  std::unordered_map<const Value*, at::Tensor> fresh_constants_;
  std::unordered_map<uint64_t, SourceRef> source_of_sequence_;
  std::vector<at::Tensor> born_;
  std::unordered_map<const c10::TensorImpl*, std::vector<DynamicDim>> dynamic_;
  // Equal sizes are one symbol. Those that are open because they changed: where they were equal before, too, and in
  // the same dimension of their tensors; the number is that dimension, and -1 for others.
  using SizeKey = std::tuple<int64_t, std::optional<int64_t>, int32_t>;
  std::map<SizeKey, Dim> symbol_of_size_;
  std::string data_dependent_failure_, graph_break_failure_;
  bool active_ = true;
  size_t numbers_ = 0;

 public:
  bool takes_data_numbers = false, takes_data_sizes = false;  // what data gives are symbols
  std::unordered_map<std::string, Dim> data_sizes;            // those that were found, by what gives them
};

// A symbol among the operands of tensors reaches an operator as a number that means nothing, with the symbol kept on
// the Python object of that number. Asked for it; an IValue None where there is none. Installed by the language layer.
using SymbolBehind = c10::IValue (*)(const at::Tensor& number);
FIRESTEEL_API void set_symbol_behind(SymbolBehind provider);

// Makes a recorder current and turns the dispatcher towards it; restores everything at the end of the scope.
class RecorderScope {
 public:
  explicit RecorderScope(std::shared_ptr<Recorder> recorder);
  ~RecorderScope();
  RecorderScope(const RecorderScope&) = delete;

 private:
  std::shared_ptr<Recorder> recorder_;
  Recorder* outer_;
  bool reapply_views_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace firesteel
