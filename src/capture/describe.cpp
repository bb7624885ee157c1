// Puts all that is known of a piece into words and numbers.
#include "capture/describe.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace firesteel::capture {
namespace {

constexpr const char* kKinds[] = {"return", "break", "concrete", "eager", "skipped"};  // of SegmentKind
constexpr const char* kTiers[] = {"aten", "waiting", "native"};                        // of Tier

nb::object describe(const std::optional<Break>& broken) {
  if (!broken) return nb::none();
  const BreakRow& words = row(broken->reason);
  nb::dict facts;
  facts["reason"] = words.id;
  facts["message"] = broken->what();
  facts["why"] = words.why;
  facts["remedy"] = words.next;
  facts["place"] = broken->place;
  facts["inside"] = broken->inside;
  facts["file"] = broken->file;
  facts["line"] = broken->line;
  return facts;
}

nb::object describe(const SourceRef& source) {
  if (!source || !*source) return nb::none();
  return nb::make_tuple(source->file->path, source->line);
}

nb::list lines_of(const Graph& graph) {
  nb::list lines;
  for (const auto& node : graph.nodes) lines.append(describe(node->source));
  return lines;
}

// For each node of an ATen graph the torch-level node that it comes from, or -1.
std::vector<int64_t> calls_of(const Graph& graph, const Story& story) {
  std::vector<int64_t> calls;
  for (const auto& node : graph.nodes) {
    const auto found = story.calls.find(node->source);
    calls.push_back(found == story.calls.end() ? -1 : static_cast<int64_t>(found->second));
  }
  return calls;
}

nb::object describe(const RunCost& cost) {
  if (!cost.runs) return nb::none();
  return nb::make_tuple(cost.runs, cost.seconds, cost.bytes_read, cost.bytes_made);
}

nb::dict describe(const KernelPlan& kernel) {
  nb::dict facts;
  facts["text"] = kernel.text;
  facts["nodes"] = kernel.nodes;
  facts["made"] = kernel.facts ? nb::cast(kernel.facts->made) : nb::none();
  facts["from_disk"] = kernel.facts && kernel.facts->from_disk;
  facts["began"] = kernel.facts ? kernel.facts->began : 0.0;
  facts["seconds"] = kernel.facts ? kernel.facts->seconds : 0.0;
  facts["cost"] = describe(kernel.cost);
  return facts;
}

nb::dict describe(const RunPlan& plan, bool is_backward, const Story& story) {
  nb::dict facts;
  facts["phase"] = is_backward ? "backward" : "forward";
  facts["text"] = plan.graph.str();
  facts["tier"] = kTiers[static_cast<size_t>(plan.tier)];
  facts["lines"] = lines_of(plan.graph);
  facts["calls"] = calls_of(plan.graph, story);
  nb::list kernels;
  for (const KernelPlan& kernel : plan.kernels) kernels.append(describe(kernel));
  facts["kernels"] = kernels;
  nb::dict costs;
  for (size_t i = 0; i < plan.costs.size(); ++i)
    if (plan.costs[i].runs) costs[nb::int_(i)] = describe(plan.costs[i]);
  facts["costs"] = costs;
  facts["before"] = describe(plan.before);
  return facts;
}

nb::dict describe(const StageTimes& stages) {
  nb::dict facts;
  facts["passes"] = stages.passes_ms / 1e3;
  facts["partition"] = stages.partition_ms / 1e3;
  facts["code"] = stages.executable_ms / 1e3;
  return facts;
}

}  // namespace

nb::dict describe(const Segment& segment) {
  const Executable* executable = segment.runner ? segment.runner->executable() : nullptr;
  nb::dict facts;
  facts["number"] = segment.number;
  facts["kind"] = kKinds[static_cast<size_t>(segment.kind)];
  facts["starts_call"] = segment.shape.has_value();
  facts["function"] = segment.function;
  facts["file"] = segment.file;
  facts["line"] = segment.line;
  facts["graph"] = segment.graph_text;
  nb::list lines;
  for (const SourceRef& source : segment.story.sources) lines.append(describe(source));
  facts["lines"] = lines;
  facts["modules"] = segment.story.modules;
  facts["opaque"] = segment.story.opaque;
  facts["aten"] = executable ? executable->joint().str() : "";
  nb::list parts;
  if (executable) {
    for (const RunPlan& plan : executable->run_plans()) parts.append(describe(plan, nb::len(parts) > 0, segment.story));
  }
  facts["parts"] = parts;
  facts["guards"] = segment.guards->describe();
  facts["break"] = describe(segment.broken);
  facts["reason"] = segment.broken ? nb::cast(std::string(row(segment.broken->reason).id)) : nb::none();
  facts["message"] = segment.broken ? nb::cast(segment.broken->message()) : nb::none();
  facts["runs"] = segment.runner != nullptr;
  facts["eager"] = segment.kind == SegmentKind::Eager;
  facts["began"] = segment.story.began;
  facts["seconds"] = segment.seconds;
  facts["stages"] = describe(segment.story.stages);
  // Code is the last stage.
  const StageTimes& stages = segment.story.stages;
  facts["stages_began"] = executable ? executable->began() - (stages.passes_ms + stages.partition_ms) / 1e3 : 0.0;
  facts["backend_seconds"] = segment.runner ? segment.runner->compile_seconds() : 0.0;
  return facts;
}

nb::dict describe(const Recompile& note) {
  nb::dict facts;
  facts["function"] = note.function;
  facts["file"] = note.file;
  facts["line"] = note.line;
  facts["before"] = note.before;
  facts["guard"] = note.guard;
  facts["is_last"] = note.is_last;
  return facts;
}

}  // namespace firesteel::capture
