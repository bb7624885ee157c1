// The tracing driver: stand-ins for the inputs, the function, its writes and aliases, then its backward.
#include "aot/trace.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/opaque_backward.h"
#include "aot/recorder.h"
#include "aot/symbolic_layouts.h"
#include "base/error.h"
#include "base/progress.h"

namespace firesteel {
namespace {

namespace functional = at::functionalization::impl;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// A view made under no_grad says that it requires grad where its base does, and yet has no history.
bool has_history(const at::Tensor& tensor) {
  if (!tensor.requires_grad() || !tensor.is_view()) return tensor.requires_grad();
  try {
    return tensor.grad_fn() != nullptr;
  } catch (const c10::Error&) {  // its base was since written to where gradients are taken
    return false;
  }
}

bool can_have_gradient(const at::Tensor& tensor) {
  return (tensor.is_floating_point() || tensor.is_complex()) && has_history(tensor);
}

// Whether one of the nodes behind the roots is as asked; all are asked where none is.
template <class Ask>
bool any_node(const torch::autograd::variable_list& roots, const Ask& ask) {
  std::vector<torch::autograd::Node*> open;
  std::unordered_set<torch::autograd::Node*> seen;
  auto visit = [&](torch::autograd::Node* node) {
    if (node && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& root : roots) visit(torch::autograd::impl::gradient_edge(root).function.get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (ask(*node)) return true;
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  return false;
}

// Asking others for their name is slow.
bool is_python_node(const torch::autograd::Node& node) {
  return std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos;
}

// torch.autograd.detect_anomaly() looks for NaN in every gradient; stand-ins have no data to look at.
class NoLookForNan {
 public:
  NoLookForNan() : was_on_(Mode::is_enabled() && Mode::should_check_nan()) {
    if (was_on_) Mode::set_enabled(true, /*check_nan=*/false);
  }
  ~NoLookForNan() {
    if (was_on_) Mode::set_enabled(true, /*check_nan=*/true);
  }
  NoLookForNan(const NoLookForNan&) = delete;
  NoLookForNan& operator=(const NoLookForNan&) = delete;

 private:
  using Mode = torch::autograd::AnomalyMode;
  bool was_on_;
};

// Hooks that a program has set around the call see what is saved when the graph runs, never stand-ins.
class NoOuterSavedHooks {
 public:
  NoOuterSavedHooks() : outer_(Hooks::get_tls_state().stack) {
    if (!outer_.empty()) exchange({});
  }
  ~NoOuterSavedHooks() {
    if (!outer_.empty()) exchange(outer_);
  }
  NoOuterSavedHooks(const NoOuterSavedHooks&) = delete;
  NoOuterSavedHooks& operator=(const NoOuterSavedHooks&) = delete;

 private:
  using Hooks = at::SavedTensorDefaultHooks;
  using Stack = decltype(at::impl::SavedTensorDefaultHooksTLS::stack);
  static void exchange(const Stack& stack) {
    at::impl::SavedTensorDefaultHooksTLS state = Hooks::get_tls_state();
    state.stack = stack;
    Hooks::set_tls_state(state);
  }
  Stack outer_;
};

// Checkpointing of the reentrant kind calls backward() inside its own backward: it sets .grad of what it captured, and
// refuses to run where gradients of given inputs are asked for.
bool runs_backward_inside(const torch::autograd::variable_list& roots) {
  return any_node(roots, [](torch::autograd::Node& node) {
    return is_python_node(node) && node.name() == "CheckpointFunctionBackward";
  });
}

// Says which node runs.
struct NoteNode final : torch::autograd::FunctionPreHook {
  NoteNode(std::optional<uint64_t>& where, uint64_t number) : where(where), number(number) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    where = number;
    return gradients;
  }
  std::optional<uint64_t>& where;
  uint64_t number;
};

void note_nodes(const torch::autograd::variable_list& roots, std::optional<uint64_t>& where) {
  any_node(roots, [&](torch::autograd::Node& node) {
    node.add_pre_hook(std::make_unique<NoteNode>(where, node.sequence_nr()));
    return false;
  });
}

// One run of trace(): its steps in order, and what they pass on.
class Tracing {
 public:
  Tracing(const std::vector<at::Tensor>& inputs, const TraceOptions& options)
      : options_(options), recorder_(std::make_shared<Recorder>(options.name)) {
    recorder_->random_states.start();
    recorder_->takes_data_numbers = options.takes_data_numbers;
    recorder_->takes_data_sizes = options.takes_data_sizes;
    recorder_->symbols->data_hints = options.data_hints;
    for (const at::Tensor& input : inputs) {
      FS_REQUIRE(input.defined(), TraceError, "an undefined tensor cannot be traced");
      FS_REQUIRE(!is_traced_tensor(input), TraceError,
                 "a tensor that is being traced cannot be an input of another trace");
    }
  }
  ~Tracing() {
    if (options_.graph_break) *options_.graph_break = recorder_->graph_break;
    recorder_->random_states.restore();
    recorder_->close();
  }

  Trace run(const FlatFunction& function, const std::vector<at::Tensor>& inputs) {
    result_.ambient = AmbientState::current();
    {
      const NoOuterSavedHooks no_outer_hooks;
      RecorderScope scope(recorder_);
      FunctionResult returned = function(enter(inputs));
      recorder_->rethrow_failure();
      for (const at::Generator& generator : recorder_->random_states.generators()) recorder_->note_seeding(generator);
      leave(returned);
      if (options_.grad) differentiate();
      recorder_->rethrow_failure();
    }
    recorder_->graph.output_tree = output_tree();
    result_.arguments.resize(result_.arguments.size() + recorder_->number_count());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (recorder_->reached_argument(inputs[i]))
        result_.arguments[i].also_captured.emplace(inputs[i].getIntrusivePtr());
    }
    result_.symbols = recorder_->symbols->origins();
    result_.shape_guards = recorder_->symbols->guards();
    result_.data_conditions = recorder_->symbols->data_conditions();
    result_.joint.graph = std::move(recorder_->graph);
    rename(result_.joint.graph, recorder_->symbols->equal_symbols());
    result_.life = recorder_;
    recorder_->graph.name = options_.name;  // an escaped tensor's error still names the trace
    return std::move(result_);
  }

 private:
  std::vector<at::Tensor> enter(const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> entered;
    std::unordered_map<const c10::TensorImpl*, int32_t> first;
    std::unordered_map<const c10::StorageImpl*, int32_t> first_of_storage;
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto [found, is_new] = first.emplace(inputs[i].unsafeGetTensorImpl(), static_cast<int32_t>(i));
      ArgumentFacts& facts = result_.arguments.emplace_back();
      if (!is_new) facts.duplicate_of = found->second;
      if (inputs[i].has_storage()) {
        auto [sharing, is_first] = first_of_storage.emplace(storage_of(inputs[i]), static_cast<int32_t>(i));
        if (!is_first) facts.shares_storage = sharing->second;
        facts.storage_offset = inputs[i].storage_offset();
      }
      facts.is_conj = inputs[i].is_conj();
      facts.is_neg = inputs[i].is_neg();
      // A repeated tensor keeps its place among the inputs, though only the first is read.
      if (!is_new) recorder_->graph.add_input(type_of(inputs[i]), InputRole::Argument);
      if (i < options_.dynamic.size() && !options_.dynamic[i].empty() && facts.shares_storage < 0)
        recorder_->expect_sizes(inputs[i], options_.dynamic[i]);
      entered.push_back(recorder_->stand_in(inputs[i], InputRole::Argument));
    }
    recorder_->graph.input_tree = options_.input_tree;
    return entered;
  }

  // Results, writes and bases become the forward outputs.
  void leave(FunctionResult& returned) {
    Graph& graph = recorder_->graph;
    for (at::Tensor& tensor : returned.tensors) add_result(tensor);
    result_.result_count = outputs_.size();
    result_.result_tree = std::move(returned.tree);
    // By index: reading a stand-in's value may add none, but an error path must not hold references.
    for (size_t i = 0; i < recorder_->stand_ins().size(); ++i) add_write(i);
    for (size_t i = 0; i < result_.result_count; ++i) relate_to_other_results(i);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const bool is_write = i >= result_.result_count && i < result_.result_count + graph.mutations.size();
      const bool is_fresh = i >= result_.result_count || graph.output_aliases[i].kind == OutputAlias::Kind::Fresh;
      const at::Tensor& output = outputs_[i];
      if (output.defined() && is_fresh && !is_write && output.requires_grad() && output.is_leaf() && !output.is_view())
        result_.made_leaves.push_back(static_cast<int32_t>(i));
    }
    for (const at::Tensor& output : outputs_)
      graph.outputs.emplace_back(output.defined() ? Arg(value_of(output)) : Arg());
    graph.output_aliases.resize(outputs_.size());
    result_.joint.forward_outputs = outputs_.size();
    for (size_t i = 0; i < result_.result_count; ++i) result_.result_views.push_back(view_of(i));
  }

  // How a result is made from the tensor it is a view of: an input, as it was or as it was changed, or another output.
  std::optional<ViewReplay> view_of(size_t result) const {
    const Graph& graph = recorder_->graph;
    const OutputAlias& alias = graph.output_aliases[result];
    std::vector<const Value*> bases;
    bool is_written = false;
    if (alias.kind == OutputAlias::Kind::ViewOfOutput) {
      bases.push_back(graph.outputs.at(alias.of).value);
    } else if (alias.kind == OutputAlias::Kind::ViewOfInput) {
      bases.push_back(graph.inputs.at(alias.of).value.get());
      for (const Mutation& mutation : graph.mutations) {
        if (mutation.input != bases[0]) continue;
        bases.push_back(mutation.updated);
        is_written = !mutation.metadata_only;
      }
    } else {
      return std::nullopt;
    }
    ViewReplay view(graph.outputs[result].value, bases);
    FS_REQUIRE(view.is_complete() || !is_written, MutationError,
               "the traced function returns a view of a tensor from outside that it has changed in place, and the view "
               "cannot be made again\n  try: return a copy of it");
    return view;
  }

  // The function's result as it nests, then whatever else the graph gives, flat.
  Tree output_tree() const {
    const size_t outputs = recorder_->graph.outputs.size();
    if (result_.result_tree.kind == TreeKind::Leaf || outputs == result_.result_count) return result_.result_tree;
    std::vector<Tree> trees(1 + outputs - result_.result_count);
    trees[0] = result_.result_tree;
    return Tree::sequence(TreeKind::Tuple, std::move(trees));
  }

  Value* value_of(const at::Tensor& tensor) {
    functional::sync(tensor);
    FakeTensorImpl* fake = as_fake_inside(tensor);
    FS_CHECK(fake && &fake->recorder() == recorder_.get(), "a result of the traced function has no value in its graph");
    return fake->value();
  }

  void add_result(at::Tensor& tensor) {
    Graph& graph = recorder_->graph;
    if (!tensor.defined()) {
      outputs_.emplace_back();
      graph.output_aliases.emplace_back();
      result_.result_requires_grad.push_back(false);
      return;
    }
    if (!is_traced_tensor(tensor)) tensor = recorder_->stand_in(tensor, InputRole::Captured);
    // What the function made from a constant of its own must be a new tensor in every call.
    if (recorder_->is_fresh_constant(value_of(tensor))) tensor = at::clone(tensor);
    outputs_.push_back(tensor);
    graph.output_aliases.push_back(alias_of_input(tensor));
    result_.result_requires_grad.push_back(has_history(tensor));
  }

  // Whether a function of autograd written in Python gave a view of an input, or the input itself.
  static bool has_python_between(const at::Tensor& view) {
    if (!view.requires_grad()) return false;
    const torch::autograd::Node* node = view.grad_fn().get();
    while (node && !is_python_node(*node) && node->num_outputs() == 1) node = node->next_edge(0).function.get();
    return node && is_python_node(*node);
  }

  OutputAlias alias_of_input(const at::Tensor& tensor) const {
    for (const Recorder::StandIn& entry : recorder_->stand_ins()) {
      if (!entry.value) continue;
      const bool same = entry.functional.is_same(tensor);
      if (!same && (entry.is_view || storage_of(entry.functional) != storage_of(tensor))) continue;
      if (!same && has_python_between(tensor)) return {};  // its gradient goes another way than a view's
      return {same ? OutputAlias::Kind::IsInput : OutputAlias::Kind::ViewOfInput, input_index(entry.value)};
    }
    return {};
  }

  int32_t input_index(const Value* value) const {
    const auto& inputs = recorder_->graph.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].value.get() == value) return static_cast<int32_t>(i);
    }
    FS_CHECK(false, "a stand-in has no input");
    return -1;
  }

  void add_write(size_t index) {
    const Recorder::StandIn entry = recorder_->stand_ins()[index];
    auto* wrapper = functional::unsafeGetFunctionalWrapper(entry.functional);
    if (entry.is_view) {
      FS_REQUIRE(!wrapper->has_metadata_mutation(), MutationError,
                 "the traced function changes the shape of a tensor that shares the memory of another one, in place\n"
                 "  try: a view of it under another name");
      FS_REQUIRE(!entry.functional.requires_grad(), MutationError,
                 "the traced function writes a value that needs a gradient to one of two tensors that share memory\n"
                 "  try: pass one of them only, or a copy");
      return;
    }
    FS_REQUIRE(entry.is_constant || !entry.functional.is_leaf() ||
                   entry.functional.requires_grad() == entry.real.requires_grad(),
               MutationError,
               "the traced function changes requires_grad of one of its inputs\n  try: set it before the call");
    FS_REQUIRE(!entry.functional.is_leaf() || !entry.functional.grad().defined(), MutationError,
               "the traced function calls backward(), which would set .grad of a tensor outside\n"
               "  try: torch.autograd.grad inside, or backward() on what the function returns");
    if (!entry.value) return;
    Value* now = value_of(entry.functional);
    if (now == entry.value) return;
    const Dim before = elements(entry.value->type.sizes);
    FS_REQUIRE(!wrapper->was_storage_changed() &&
                   c10::multiply_integers(traced_sizes(entry.functional)) == recorder_->symbols->hint(before),
               MutationError,
               "the traced function gives a tensor from outside other storage (set_, resize_ or .data = …)");
    const bool data = wrapper->has_data_mutation();
    const bool metadata = wrapper->has_metadata_mutation();
    FS_REQUIRE(!(data && metadata), MutationError,
               "the traced function changes both the data and the shape of a tensor from outside in place");
    if (std::string reason = recorder_->forbidden_write(entry); !reason.empty()) {
      FS_RAISE(MutationError, "{}\n  try: pass one of them only, or a copy", reason);
    }
    Mutation mutation;
    mutation.input = entry.value;
    mutation.updated = now;
    mutation.metadata_only = metadata;
    // A write that autograd saw gave the tensor another history.
    mutation.under_no_grad = !entry.functional.requires_grad() || entry.functional.grad_fn() == entry.history;
    recorder_->graph.mutations.push_back(mutation);
    outputs_.push_back(entry.functional);
  }

  // A write that autograd does not see: the input keeps its history, and its gradient.
  bool is_unseen_write(size_t output) const {
    const auto& mutations = recorder_->graph.mutations;
    const size_t index = output - result_.result_count;
    return output >= result_.result_count && index < mutations.size() && mutations[index].under_no_grad;
  }

  bool is_made_leaf(size_t output) const {
    const auto& made = result_.made_leaves;
    return std::find(made.begin(), made.end(), static_cast<int32_t>(output)) != made.end();
  }

  // Results that share memory with each other: all but one are rebuilt as views when the graph is called.
  void relate_to_other_results(size_t index) {
    Graph& graph = recorder_->graph;
    const at::Tensor& tensor = outputs_[index];
    if (!tensor.defined() || graph.output_aliases[index].kind != OutputAlias::Kind::Fresh) return;
    bool shared = false;
    for (size_t other = 0; other < result_.result_count; ++other) {
      if (other == index || !outputs_[other].defined()) continue;
      if (outputs_[other].is_same(tensor) && other < index) {
        graph.output_aliases[index] = {OutputAlias::Kind::ViewOfOutput, static_cast<int32_t>(other)};
        return;
      }
      shared = shared || storage_of(outputs_[other]) == storage_of(tensor);
    }
    if (!shared || !tensor.requires_grad() || !tensor.is_view() || has_python_between(tensor)) return;
    const at::Tensor base(tensor._base());
    size_t at = 0;
    while (at < outputs_.size() && !(outputs_[at].defined() && outputs_[at].is_same(base))) ++at;
    if (at == outputs_.size()) outputs_.push_back(base);
    graph.output_aliases[index] = {OutputAlias::Kind::ViewOfOutput, static_cast<int32_t>(at)};
  }

  void differentiate() {
    Graph& graph = recorder_->graph;
    torch::autograd::variable_list roots, tangents, leaves;
    std::vector<int32_t> inputs;
    for (const Recorder::StandIn& entry : recorder_->stand_ins()) {
      if (!entry.leaf.defined()) continue;
      leaves.push_back(entry.leaf);
      inputs.push_back(input_index(entry.value));
    }
    for (int32_t made : result_.made_leaves) {
      leaves.push_back(outputs_[made]);
      inputs.push_back(~made);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const at::Tensor& output = outputs_[i];
      if (!output.defined() || graph.output_aliases[i].kind != OutputAlias::Kind::Fresh || !can_have_gradient(output) ||
          is_unseen_write(i) || is_made_leaf(i)) {
        continue;
      }
      result_.tangent_outputs.push_back(static_cast<int32_t>(i));
      if (leaves.empty()) continue;  // all that gradients could reach was made inside, and is gone
      roots.push_back(output);
      tangents.push_back(tangent_for(output));
    }
    if (roots.empty()) return;
    recorder_->phase = Phase::Backward;
    const ProgressStage stage("tracing the backward");
    // Called in a block of autocast; a backward runs outside of it, in the types that the forward has chosen.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    torch::autograd::variable_list gradients;
    auto backward = [&] {
      if (runs_backward_inside(roots)) {
        torch::autograd::backward(roots, tangents);
        for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
      } else {
        gradients = torch::autograd::grad(roots, leaves, tangents, /*retain_graph=*/false, /*create_graph=*/false,
                                          /*allow_unused=*/true);
      }
    };
    FailedBackward unread;
    FailedBackward& failed = options_.failed_backward ? *options_.failed_backward : unread;
    failed.began = true;
    if (failed.locate) note_nodes(roots, failed.node);
    if (options_.meet_python_node) {
      any_node(roots, [&](torch::autograd::Node& node) {
        if (is_python_node(node)) options_.meet_python_node(node);
        return false;
      });
    }
    {
      const NoLookForNan no_look_for_nan;
      options_.run_backward ? options_.run_backward(backward) : backward();
    }
    failed = {};
    for (size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor& gradient = gradients[i];
      if (gradient.defined() && !is_traced_tensor(gradient))
        gradient = recorder_->stand_in(gradient, InputRole::Captured);
      graph.outputs.emplace_back(gradient.defined() ? Arg(value_of(gradient)) : Arg());
      result_.gradient_inputs.push_back(inputs[i]);
    }
    graph.output_aliases.resize(graph.outputs.size());
    note_missing_gradients(graph);
  }

  at::Tensor tangent_for(const at::Tensor& output) {
    OutsideTrace outside;
    const at::Tensor& inner = functional::unsafeGetFunctionalWrapper(output)->value();
    Value* value = recorder_->graph.add_input(type_of(inner), InputRole::Tangent);
    at::Tensor meta = meta_preserving(as_fake(inner)->meta(), inner.scalar_type());
    at::Tensor fake = make_fake(meta, inner.device(), recorder_, value);
    if (const SymbolicLayout* layout = as_fake(inner)->layout())
      as_fake(fake)->set_layout({layout->sizes, dense_strides(layout->sizes, meta.sizes(), meta.strides()), 0});
    value->type = type_of(fake);
    return functional::to_functional_tensor(fake);
  }

  const TraceOptions& options_;
  std::shared_ptr<Recorder> recorder_;
  Trace result_;
  std::vector<at::Tensor> outputs_;
};

}  // namespace

AmbientState AmbientState::current() {
  AmbientState state;
  state.grad_mode = c10::GradMode::is_enabled();
  state.inference_mode = c10::InferenceMode::is_enabled();
  state.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  state.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  if (state.autocast_cpu) state.autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  if (state.autocast_cuda) state.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  return state;
}

Trace trace(const FlatFunction& function, const std::vector<at::Tensor>& inputs, const TraceOptions& options) {
  Tracing tracing(inputs, options);
  return tracing.run(function, inputs);
}

}  // namespace firesteel
