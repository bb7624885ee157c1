// A recorded function: its graph as text, and a call on flat values.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "firesteel/callable.h"
#include "firesteel/graph_break.h"
#include "firesteel/native_code.h"
#include "firesteel/stage_times.h"

namespace firesteel {

// A handle: copies share the graph. Graphs never change, so several threads may use one.
class FIRESTEEL_API TracedGraph {
 public:
  struct State;

  // Runs `function` once on fake tensors like `arguments`. Gradients are recorded too where grad mode is on and
  // something requires them. Throws a TraceError, or whatever the function throws. `graph_break`: where the break is
  // put that the function asked for, if that is why it threw.
  static TracedGraph record(const FlatCallable& function, const FlatValues& arguments, const std::string& name,
                            std::optional<GraphBreak>* graph_break = nullptr, NativeCode native = NativeCode::None,
                            bool freeze = false);
  explicit TracedGraph(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::string str() const;       // the whole graph, its backward included
  std::string joint() const;     // the same
  std::string forward() const;   // as it runs: with the values saved for the backward
  std::string backward() const;  // empty where there is none
  bool has_backward() const;
  const std::string& name() const;
  const StageTimes& times() const;

  // Throws InputMismatchError where the arguments are not as traced.
  std::vector<at::Tensor> run(const FlatValues& arguments) const;
  // How the function's result nests, for rebuilding it.
  const std::string& result_structure() const;

  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace firesteel
