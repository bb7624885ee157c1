// Recording a C++ function, and the graph's handle.
#include "firesteel/traced_graph.h"

#include <algorithm>

#include "api/graph_state.h"
#include "api/structure_tree.h"
#include "base/error.h"

namespace firesteel {
namespace {

// What the graph's text shows: nothing where all arguments are plain tensors.
Tree shown_arguments(const Tree& arguments) {
  const bool plain = std::all_of(arguments.children.begin(), arguments.children.end(),
                                 [](const Tree& child) { return child.kind == TreeKind::Leaf; });
  return plain ? Tree::leaf() : arguments;
}

}  // namespace

TracedGraph TracedGraph::record(const FlatCallable& function, const FlatValues& arguments, const std::string& name,
                                std::optional<GraphBreak>* graph_break, NativeCode native, bool freeze) {
  auto state = std::make_shared<State>();
  state->argument_structure = arguments.structure;
  state->ambient = AmbientState::current();

  TraceOptions options;
  options.name = name;
  options.graph_break = graph_break;
  options.grad = state->ambient.grad_mode && !state->ambient.inference_mode;
  options.input_tree = shown_arguments(argument_tree(arguments.structure));
  auto traced = [&](const std::vector<at::Tensor>& fakes) {
    FlatValues result = function({fakes, arguments.structure});
    state->result_structure = std::move(result.structure);
    return FunctionResult{std::move(result.tensors), result_tree(state->result_structure)};
  };
  CompilerOptions compiler;
  compiler.native = native;
  compiler.freeze = freeze;
  state->executable.emplace(compile_function(traced, arguments.tensors, options, compiler, &state->times));
  return TracedGraph(std::move(state));
}

std::vector<at::Tensor> TracedGraph::run(const FlatValues& arguments) const {
  FS_REQUIRE(
      arguments.structure == state_->argument_structure, InputMismatchError,
      "the arguments nest in another way, or have other constants, than in the trace\n  traced: {}\n  given:  {}",
      argument_tree(state_->argument_structure).str(), argument_tree(arguments.structure).str());
  return (*state_->executable)(arguments.tensors);
}

std::string TracedGraph::str() const { return joint(); }
std::string TracedGraph::joint() const { return state_->executable->joint().str(); }
std::string TracedGraph::forward() const { return state_->executable->forward().str(); }
std::string TracedGraph::backward() const {
  return has_backward() ? state_->executable->backward()->str() : std::string();
}
bool TracedGraph::has_backward() const { return state_->executable->backward() != nullptr; }
const std::string& TracedGraph::name() const { return state_->executable->joint().name; }
const StageTimes& TracedGraph::times() const { return state_->times; }
const std::string& TracedGraph::result_structure() const { return state_->result_structure; }

std::string StageTimes::str() const {
  return fmt::format("trace {:.1f} ms, passes {:.1f} ms, partition {:.1f} ms, executable {:.1f} ms", trace_ms,
                     passes_ms, partition_ms, executable_ms);
}

}  // namespace firesteel
