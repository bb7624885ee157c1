// Calls a traced graph as eager would call the function: autograd, writes to inputs and views included.
#include "runtime/executable.h"

#include <algorithm>
#include <chrono>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/data_ops.h"
#include "aot/random_start.h"
#include "base/error.h"
#include "graph/data_symbols.h"
#include "runtime/backward_node.h"
#include "runtime/below_autograd.h"

namespace firesteel {
namespace {

at::Tensor random_like(const Type& type, std::span<const int64_t> symbols) {
  const auto options = at::TensorOptions().dtype(type.dtype).device(type.device);
  return at::empty_strided(sizes_of(type.sizes, symbols), sizes_of(type.strides, symbols), options).normal_();
}

}  // namespace

struct Executable::State {
  double began = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  Trace trace;
  Partitioned parts;  // forward alone where there is no backward
  bool has_backward = false;
  Signature signature;
  TieredProgram forward;
  std::shared_ptr<BackwardPlan> backward;
  // Where an input of the forward graph comes from: an argument, a captured tensor of the signature, or a constant.
  struct Origin {
    int32_t argument = -1, captured = -1;
    at::Tensor constant;
  };
  std::vector<Origin> origins;
  // Where a run reads numbers from data: what it must find to hold, and what it draws random numbers from.
  bool reads_data = false;
  std::vector<at::Generator> generators;
  std::optional<RelationProgram> data_conditions;

  State(Trace traced, Partitioned partitioned, bool with_backward, bool with_gradients, NativeCode native, bool freeze)
      : trace(std::move(traced)),
        parts(std::move(partitioned)),
        has_backward(with_backward),
        signature(trace, with_gradients),
        forward(parts.forward, native, freeze && !with_backward) {
    find_origins();
    plan_data();
    const Graph& graph = trace.joint.graph;
    if (!has_backward) return;
    std::vector<Type> tangents;
    for (const Input& input : parts.backward.inputs) {
      if (input.role == InputRole::Tangent) tangents.push_back(input.value->type);
    }
    backward = std::make_shared<BackwardPlan>(graph.name + "_backward", parts.backward, native, std::move(tangents));
  }

  void plan_data() {
    reads_data = std::any_of(parts.forward.nodes.begin(), parts.forward.nodes.end(), [](const auto& node) {
      return !data_symbols_of(*node).empty() || node->op.str() == "firesteel.divisor";
    });
    if (!reads_data) return;
    for (const auto& node : parts.forward.nodes) {
      if (node->op.aten && op_facts(*node->op.aten).is_random) add_generator_of(*node, generators);
    }
    std::vector<Relation> relations;
    std::vector<std::string> names;
    for (const ShapeGuard& guard : trace.data_conditions) relations.push_back(guard.relation);
    for (const SymbolOrigin& symbol : trace.symbols) names.push_back(symbol.name);
    if (!relations.empty()) data_conditions.emplace(relations, names);
  }

  // A run whose data breaks what the graph takes for granted, or that fails, has not happened: the program as it is
  // gives the right result, or the right error.
  std::vector<at::Tensor> run_on_data(const std::vector<at::Tensor>& inputs, SymbolValues& symbols) const {
    RandomStart start(generators);
    try {
      std::vector<at::Tensor> outputs = forward.aten().run(inputs, symbols, &symbols);
      const int failed = data_conditions ? data_conditions->run(symbols.data()) : -1;
      if (failed < 0) return outputs;
      throw DataMismatch(fmt::format("`{}` holds", trace.data_conditions[failed].relation.str()));
    } catch (const DataMismatch&) {
      start.restore();
      throw;
    } catch (const std::exception& error) {
      start.restore();
      throw DataMismatch(error.what(), std::current_exception());
    }
  }

  void find_origins() {
    std::unordered_map<const c10::TensorImpl*, int32_t> known;
    for (const at::Tensor& tensor : signature.captured())
      known.emplace(tensor.unsafeGetTensorImpl(), static_cast<int32_t>(known.size()));
    int32_t argument = 0;
    for (const Input& input : parts.forward.inputs) {
      Origin& origin = origins.emplace_back();
      if (input.role == InputRole::Argument) {
        origin.argument = argument++;
      } else if (auto found = known.find(input.captured.unsafeGetTensorImpl()); found != known.end()) {
        origin.captured = found->second;
      } else {
        origin.constant = input.captured;
      }
    }
  }

  // Moves each captured tensor over: it stands once among the inputs. Counting references of tensors that Python holds
  // alone would take its lock each time.
  std::vector<at::Tensor> forward_inputs(const std::vector<at::Tensor>& arguments,
                                         std::vector<at::Tensor>& captured) const {
    std::vector<at::Tensor> inputs;
    inputs.reserve(origins.size() + 8);
    for (const Origin& origin : origins) {
      if (origin.captured >= 0) {
        inputs.push_back(std::move(captured[origin.captured]));
      } else {
        inputs.push_back(origin.argument >= 0 ? arguments[origin.argument] : origin.constant);
      }
    }
    return inputs;
  }

  void give_back(std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& captured) const {
    for (size_t i = 0; i < origins.size(); ++i) {
      if (origins[i].captured >= 0) captured[origins[i].captured] = std::move(inputs[i]);
    }
  }

  bool needs_gradients(const std::vector<at::Tensor>& inputs) const {
    if (!has_backward || !c10::GradMode::is_enabled()) return false;
    for (int32_t index : trace.gradient_inputs) {
      if (index < 0 || inputs[index].requires_grad()) return true;
    }
    return false;
  }

  void attach_backward(std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                       const SymbolValues& symbols) const;
  // Writes of data, or of sizes and strides alone.
  void apply_writes(bool metadata, const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) const;
  at::Tensor result(size_t index, const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                    const SymbolValues& symbols) const;
  std::vector<at::Tensor> finish(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                                 const SymbolValues& symbols) const;
};

namespace {

// A result that requires a gradient, which nobody can ask for: the tensors it would reach are gone.
struct NoGradients final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
  std::string name() const override { return "FiresteelNoGradients"; }
};

}  // namespace

void Executable::State::attach_backward(std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                                        const SymbolValues& symbols) const {
  auto node = make_autograd_node<BackwardNode>(backward, symbols);
  torch::autograd::edge_list edges;
  for (int32_t index : trace.gradient_inputs) {
    const at::Tensor& leaf = index < 0 ? outputs[~index] : inputs[index];
    edges.push_back(leaf.requires_grad() ? torch::autograd::impl::gradient_edge(leaf) : torch::autograd::Edge());
  }
  node->set_next_edges(std::move(edges));
  for (int32_t index : trace.tangent_outputs) torch::autograd::set_history(outputs[index], node);
  for (size_t i = 0; i < parts.saved_input.size(); ++i) {
    const at::Tensor& saved = outputs[parts.forward_outputs + i];
    bool is_output = false;
    for (int32_t index : trace.tangent_outputs) is_output = is_output || outputs[index].is_same(saved);
    node->save(saved, is_output);
  }
}

void Executable::State::apply_writes(bool metadata, const std::vector<at::Tensor>& outputs,
                                     const std::vector<at::Tensor>& inputs) const {
  for (size_t i = 0; i < trace.joint.graph.mutations.size(); ++i) {
    const Mutation& mutation = trace.joint.graph.mutations[i];
    if (mutation.metadata_only != metadata) continue;
    const at::Tensor& updated = outputs[trace.result_count + i];
    at::Tensor input;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (trace.joint.graph.inputs[k].value.get() == mutation.input) input = inputs[k];
    }
    at::AutoGradMode mode(c10::GradMode::is_enabled() && !mutation.under_no_grad);
    if (!metadata && updated.is_same(input)) {  // a kernel wrote it in place
      if (!input.is_inference()) input.unsafeGetTensorImpl()->bump_version();
      continue;
    }
    if (metadata) {
      input.as_strided_(updated.sizes(), updated.strides(), updated.storage_offset());
    } else {
      input.copy_(updated);
    }
  }
}

at::Tensor Executable::State::result(size_t index, const std::vector<at::Tensor>& outputs,
                                     const std::vector<at::Tensor>& inputs, const SymbolValues& symbols) const {
  const OutputAlias& alias = trace.joint.graph.output_aliases.at(index);
  at::AutoGradMode mode(c10::GradMode::is_enabled() && trace.result_requires_grad[index]);
  switch (alias.kind) {
    case OutputAlias::Kind::IsInput:
      return inputs[alias.of];
    case OutputAlias::Kind::ViewOfInput: {
      at::Tensor view = trace.result_views[index]->replay(inputs[alias.of], outputs[index], symbols);
      // `x.data` is another tensor without history, and no operator of the graph.
      const bool is_data = view.is_same(inputs[alias.of]) && !trace.result_requires_grad[index];
      return is_data ? view.variable_data() : view;
    }
    case OutputAlias::Kind::ViewOfOutput: {
      // Of a result that is a view itself, it is one of what is given back: with its gradient.
      const auto of = static_cast<size_t>(alias.of);
      const bool is_made = of < index && trace.joint.graph.output_aliases.at(of).kind != OutputAlias::Kind::Fresh;
      const at::Tensor base = is_made ? result(of, outputs, inputs, symbols) : outputs[of];
      return trace.result_views[index]->replay(base, outputs[index], symbols);
    }
    case OutputAlias::Kind::Fresh:
      break;
  }
  return outputs[index];
}

// Writes to inputs, and results. A view of an input is made from its data as it is now; one that was made before the
// input's shape changed, from the shape it had.
std::vector<at::Tensor> Executable::State::finish(const std::vector<at::Tensor>& outputs,
                                                  const std::vector<at::Tensor>& inputs,
                                                  const SymbolValues& symbols) const {
  std::vector<at::Tensor> results(trace.result_count);
  apply_writes(/*metadata=*/false, outputs, inputs);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool is_view = trace.joint.graph.output_aliases.at(i).kind == OutputAlias::Kind::ViewOfInput;
    if (is_view && trace.result_views[i]->base() == 0) results[i] = result(i, outputs, inputs, symbols);
  }
  apply_writes(/*metadata=*/true, outputs, inputs);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) results[i] = result(i, outputs, inputs, symbols);
  }
  return results;
}

Executable::Executable(Trace trace, Partitioned parts, NativeCode native, bool freeze) {
  const bool has_backward = !trace.gradient_inputs.empty();
  state_ = std::make_unique<State>(std::move(trace), std::move(parts), has_backward, has_backward, native, freeze);
}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;

std::vector<at::Tensor> Executable::operator()(const std::vector<at::Tensor>& arguments) const {
  if (!state_->signature.matches(arguments)) {
    FS_RAISE(InputMismatchError, "{}\n  try: trace again for these inputs", state_->signature.mismatch(arguments));
  }
  return run(arguments);
}

std::vector<at::Tensor> Executable::operator()(const std::vector<at::Tensor>& arguments,
                                               std::vector<at::Tensor>& captured) const {
  if (!state_->signature.matches(arguments, captured)) {
    FS_RAISE(InputMismatchError, "{}\n  try: trace again for these inputs", state_->signature.mismatch(arguments));
  }
  return run(arguments, captured);
}

std::vector<at::Tensor> Executable::run(const std::vector<at::Tensor>& arguments) const {
  std::vector<at::Tensor> captured = state_->signature.captured();
  return run(arguments, captured);
}

std::vector<at::Tensor> Executable::run(const std::vector<at::Tensor>& arguments,
                                        std::vector<at::Tensor>& captured) const {
  struct Lent {
    const State& state;
    std::vector<at::Tensor>& captured;
    std::vector<at::Tensor> inputs;
    ~Lent() { state.give_back(inputs, captured); }
  } lent{*state_, captured, state_->forward_inputs(arguments, captured)};
  const std::vector<at::Tensor>& inputs = lent.inputs;
  SymbolValues symbols = state_->signature.symbols(arguments);
  std::vector<at::Tensor> outputs;
  if (is_tracing()) {
    // Inside another trace: the operators are recorded there, one by one, and differentiated there if they are here.
    at::AutoGradMode mode(c10::GradMode::is_enabled() && state_->has_backward);
    outputs = state_->forward.aten().run(inputs, symbols);
  } else {
    {
      BelowAutograd below;
      outputs = state_->reads_data ? state_->run_on_data(inputs, symbols) : state_->forward.run(inputs, symbols);
    }
    for (int32_t made : state_->trace.made_leaves) {
      // The same memory may be given as a plain tensor as well.
      const at::Tensor& leaf = outputs[made];
      const bool shared =
          std::count_if(outputs.begin(), outputs.end(), [&](auto& one) { return one.is_same(leaf); }) > 1;
      if (shared) outputs[made] = leaf.detach();
      outputs[made].set_requires_grad(true);
    }
    if (state_->needs_gradients(inputs)) state_->attach_backward(outputs, inputs, symbols);
    if (!state_->has_backward && c10::GradMode::is_enabled()) {
      for (int32_t index : state_->trace.tangent_outputs)
        torch::autograd::set_history(outputs[index], make_autograd_node<NoGradients>());
    }
  }
  return state_->finish(outputs, inputs, symbols);
}

void Executable::let_go(const TensorSet& captured) {
  state_->signature.let_go(captured);
  for (Graph* graph : {&state_->trace.joint.graph, &state_->parts.forward, &state_->parts.backward}) {
    for (Input& input : graph->inputs) {
      if (captured.count(input.captured.unsafeGetTensorImpl())) input.captured = at::Tensor();
    }
  }
}

std::string Executable::mismatch(const std::vector<at::Tensor>& inputs) const {
  return state_->signature.mismatch(inputs);
}
const Signature& Executable::signature() const { return state_->signature; }
double Executable::began() const { return state_->began; }
const Graph& Executable::joint() const { return state_->trace.joint.graph; }
const Graph& Executable::forward() const { return state_->parts.forward; }
const Graph* Executable::backward() const { return state_->has_backward ? &state_->parts.backward : nullptr; }
std::vector<GraphWithInputs> Executable::parts_for(const std::vector<at::Tensor>& inputs,
                                                   std::vector<at::Tensor>& captured) const {
  if (state_->reads_data) return {};  // its sizes are known to a run alone
  BelowAutograd below;
  const SymbolValues symbols = state_->signature.symbols(inputs);
  std::vector<GraphWithInputs> parts;
  parts.push_back({with_sizes(state_->parts.forward, symbols), state_->forward_inputs(inputs, captured)});
  if (!state_->has_backward) return parts;
  const std::vector<at::Tensor> outputs = Program(parts[0].graph).run(parts[0].inputs);
  std::vector<at::Tensor> saved(outputs.begin() + static_cast<ptrdiff_t>(state_->parts.forward_outputs), outputs.end());
  for (const Type& type : state_->backward->tangents) saved.push_back(random_like(type, symbols));
  parts.push_back({with_sizes(state_->parts.backward, symbols), std::move(saved)});
  return parts;
}
std::vector<KernelResult> Executable::compare_kernels(const std::vector<at::Tensor>& inputs,
                                                      std::vector<at::Tensor>& captured) const {
  std::vector<KernelResult> found;
  const std::vector<GraphWithInputs> parts = parts_for(inputs, captured);
  BelowAutograd below;
  for (const GraphWithInputs& part : parts)
    firesteel::compare_kernels(part.graph, part.inputs, &part != &parts.front(), found);
  return found;
}
std::vector<RunPlan> Executable::run_plans() const {
  std::vector<RunPlan> plans;
  plans.push_back(plan_run(state_->parts.forward, state_->forward));
  if (state_->has_backward) {
    const BackwardPlan::VersionRef version = state_->backward->last();
    plans.push_back(plan_run(version->graph, version->program));
  }
  return plans;
}
std::vector<std::string> Executable::conditions() const {
  std::vector<std::string> lines;
  for (const SymbolOrigin& symbol : state_->trace.symbols) {
    if (symbol.from_data()) continue;
    lines.push_back(symbol.most == INT64_MAX ? fmt::format("{} <= {}", symbol.least, symbol.name)
                                             : fmt::format("{} <= {} <= {}", symbol.least, symbol.name, symbol.most));
  }
  std::vector<ShapeGuard> guards = state_->trace.shape_guards;
  guards.insert(guards.end(), state_->trace.data_conditions.begin(), state_->trace.data_conditions.end());
  for (const ShapeGuard& guard : guards) {
    lines.push_back(guard.source ? fmt::format("{}  # {}", guard.relation.str(), guard.source->str())
                                 : guard.relation.str());
  }
  return lines;
}
const Tree& Executable::input_tree() const { return state_->trace.joint.graph.input_tree; }
const Tree& Executable::output_tree() const { return state_->trace.result_tree; }

}  // namespace firesteel
