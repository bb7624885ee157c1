// firesteel::compile(function): a function of the same signature that runs one recorded graph for each input signature.
#pragma once

#include <memory>
#include <source_location>

#include "firesteel/traced_graph.h"

namespace firesteel {

struct CompileOptions {
  std::string name = "compiled";  // in graphs and messages
  // With this many graphs, calls of yet another signature run the function itself, after one warning.
  size_t recompile_limit = 8;
  // What the function reads besides its arguments and tensors, as text: a graph is used only where it is as in its
  // trace. For a function that captures a module: `[net] { return std::string(net->is_training() ? "train" : "eval");
  // }`
  std::function<std::string()> state = {};
  // A graph break that the function asks for is an error: GraphBreakError.
  bool fullgraph = false;
  // False: ATen runs the graphs, operator by operator.
  bool native = true;
  // True: the first call of a signature waits for its native code. Otherwise ATen runs the calls until it is there.
  bool wait = false;
  // True: native code without gradients takes the tensors that the function captures as weights, prepared once, and
  // again where one of them was written to.
  bool freeze = false;
};

// The graphs of one compiled function, found by signature: structure and constants of the arguments; dtype, device,
// sizes, strides, requires_grad and shared memory of their tensors; grad mode, inference mode, autocast;
// `CompileOptions::state`.
class FIRESTEEL_API CompiledGraphs {
 public:
  CompiledGraphs(CompileOptions options, std::source_location where);
  ~CompiledGraphs();

  struct Result {
    std::vector<at::Tensor> tensors;
    TracedGraph graph;  // that gave them
  };
  // Any number of threads may call; one of them traces. No result: the caller is to run the function itself (past the
  // limit, inside another trace, or where it asks for a graph break). `types`: tells apart the argument types of a
  // function with `auto` parameters.
  std::optional<Result> call(const FlatValues& arguments, const FlatCallable& function, std::string_view types = {});

  std::vector<TracedGraph> graphs() const;
  std::vector<GraphBreak> breaks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Copies share their graphs.
template <class F>
class CompiledBase {
 public:
  CompiledBase(F function, CompileOptions options, std::source_location where)
      : state_(std::make_shared<State>(std::move(function), std::move(options), where)) {}

  // The graphs made so far, oldest first.
  std::vector<TracedGraph> graphs() const { return state_->graphs.graphs(); }
  size_t graph_count() const { return graphs().size(); }
  // Why there are signatures without a graph, oldest first: calls of these run the function itself.
  std::vector<GraphBreak> breaks() const { return state_->graphs.breaks(); }

 protected:
  template <class... Args>
  detail::result_t<std::invoke_result_t<F&, Args...>> call(std::string_view types, Args&&... args) const {
    F& function = state_->function;
    auto flat = [&function](const FlatValues& given) { return detail::call_flat<Args...>(function, given); };
    auto result = state_->graphs.call(detail::lay_flat(args...), flat, types);
    if (!result) return std::invoke(function, std::forward<Args>(args)...);
    return detail::rebuild<detail::result_t<std::invoke_result_t<F&, Args...>>>(result->tensors,
                                                                                result->graph.result_structure());
  }

 private:
  struct State {
    State(F f, CompileOptions options, std::source_location where)
        : function(std::move(f)), graphs(std::move(options), where) {}
    F function;
    CompiledGraphs graphs;
  };
  std::shared_ptr<State> state_;
};

template <class F, class Signature = detail::signature_of<F>>
class Compiled;

template <class F, class Result, class... Args>
class Compiled<F, Result(Args...)> : public CompiledBase<F> {
 public:
  using CompiledBase<F>::CompiledBase;
  detail::result_t<Result> operator()(Args... args) const {
    return this->template call<Args...>({}, std::forward<Args>(args)...);
  }
};

// A function with `auto` parameters: one graph also for each combination of argument types.
template <class F>
class Compiled<F, void> : public CompiledBase<F> {
 public:
  using CompiledBase<F>::CompiledBase;
  template <class... Args>
  auto operator()(Args&&... args) const {
    return this->template call<Args...>(typeid(std::type_identity<void(Args...)>).name(), std::forward<Args>(args)...);
  }
};

template <class F>
auto compile(F&& function, CompileOptions options = {}, std::source_location where = std::source_location::current()) {
  return Compiled<std::decay_t<F>>(std::forward<F>(function), std::move(options), where);
}

}  // namespace firesteel
