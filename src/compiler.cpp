// The table of contents: what happens to a function, stage by stage, each timed, its result verified in debug builds.
#include "compiler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "base/progress.h"
#include "fuse/two_directions.h"
#include "graph/passes/pass.h"

namespace firesteel {
namespace {

// In the order they run: folding and joining leave equal nodes to merge and unused ones to drop.
constexpr std::array<std::string_view, 4> kPasses = {"constant_folding", "view_simplification", "common_subexpressions",
                                                     "dead_code"};

// Runs one stage, tells of it where somebody waits, and adds its time.
template <class Stage>
auto timed(double& milliseconds, std::string_view name, Stage&& stage) {
  const ProgressStage at(name);
  struct Clock {
    double& milliseconds;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~Clock() {
      milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    }
  } clock{milliseconds};
  return stage();
}

void verify_in_debug([[maybe_unused]] const Graph& graph) {
#ifndef NDEBUG
  verify(graph);
#endif
}

bool is_among(std::string_view name, std::string_view names) {
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    if (names.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

// FIRESTEEL_SPOIL_PASS=dead_code, for tests: the pass takes sin for cos.
void spoil(Graph& graph) {
  static const auto cosine = c10::Dispatcher::singleton().findSchemaOrThrow("aten::cos", "");
  for (const auto& node : graph.nodes) {
    if (node->op.is_aten() && node->op.aten->operator_name().name == "aten::sin") node->op.aten = cosine;
  }
}

// FIRESTEEL_PASSES=constant_folding,dead_code: these alone, to find out which one is to blame.
void run_passes(Graph& graph) {
  const char* chosen = std::getenv("FIRESTEEL_PASSES");
  const char* spoiled = std::getenv("FIRESTEEL_SPOIL_PASS");
  for (std::string_view pass : kPasses) {
    if (chosen && !is_among(pass, chosen)) continue;
    run_pass(pass, graph);
    if (spoiled && pass == spoiled) spoil(graph);
  }
}

Partitioned cut(const Trace& trace, const PartitionOptions& options) {
  if (!trace.gradient_inputs.empty()) return partition(trace.joint, options);
  Partitioned parts;
  parts.forward = trace.joint.graph.clone();
  parts.forward_outputs = trace.joint.forward_outputs;
  return parts;
}

}  // namespace

std::vector<std::string_view> pass_order() { return {kPasses.begin(), kPasses.end()}; }

Executable compile_trace(Trace trace, const CompilerOptions& options, StageTimes* times) {
  StageTimes unread;
  StageTimes& spent = times ? *times : unread;

  verify_in_debug(trace.joint.graph);
  if (options.passes) timed(spent.passes_ms, "simplifying the graph", [&] { run_passes(trace.joint.graph); });
  Partitioned parts =
      timed(spent.partition_ms, "parting forward and backward", [&] { return cut(trace, options.partition); });
  if (options.native != NativeCode::None) {
    for (Graph* graph : {&parts.forward, &parts.backward}) split_directions(*graph);
  }
  verify_in_debug(parts.forward);
  return timed(spent.executable_ms, "making code",
               [&] { return Executable(std::move(trace), std::move(parts), options.native, options.freeze); });
}

Executable compile_function(const FlatFunction& function, const std::vector<at::Tensor>& inputs,
                            const TraceOptions& trace_options, const CompilerOptions& options, StageTimes* times) {
  StageTimes unread;
  StageTimes& spent = times ? *times : unread;
  const Compiling compiling;
  Trace traced = timed(spent.trace_ms, "tracing", [&] { return trace(function, inputs, trace_options); });
  return compile_trace(std::move(traced), options, &spent);
}

}  // namespace firesteel
