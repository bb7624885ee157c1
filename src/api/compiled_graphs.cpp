// Finds or makes the graph for a call of a compiled function.
#include <map>
#include <mutex>
#include <shared_mutex>

#include <c10/util/Exception.h>

#include "api/graph_state.h"
#include "api/structure_tree.h"
#include "base/error.h"
#include "firesteel/compile.h"

namespace firesteel {
namespace {

// One call, in everything that decides which graph serves it.
struct Call {
  const FlatValues& arguments;
  std::string types_and_state;
  AmbientState ambient = AmbientState::current();
};

struct Entry {
  TracedGraph graph;
  std::string types_and_state;
  std::optional<GraphBreak> graph_break;  // then the graph does nothing: it keeps the signature of calls to run eagerly

  const Executable& executable() const { return *graph.state().executable; }
  bool serves(const Call& call) const {
    const TracedGraph::State& state = graph.state();
    return call.arguments.structure == state.argument_structure && call.types_and_state == types_and_state &&
           call.ambient == state.ambient && executable().signature().matches_exactly(call.arguments.tensors);
  }
};

struct AmbientFact {
  const char* name;
  bool (*differs)(const AmbientState&, const AmbientState&);
};
constexpr AmbientFact kAmbientFacts[] = {
    {"grad mode", [](const AmbientState& a, const AmbientState& b) { return a.grad_mode != b.grad_mode; }},
    {"inference mode",
     [](const AmbientState& a, const AmbientState& b) { return a.inference_mode != b.inference_mode; }},
    {"autocast", [](const AmbientState& a, const AmbientState& b) { return a != b; }},
};

// What differs between a call and the graph it did not fit: a headline to count by, and the values.
std::string difference(const Entry& entry, const Call& call) {
  const TracedGraph::State& state = entry.graph.state();
  if (call.types_and_state != entry.types_and_state) {
    return fmt::format("the state that the function reads is another: traced '{}', given '{}'", entry.types_and_state,
                       call.types_and_state);
  }
  if (call.arguments.structure != state.argument_structure) {
    return fmt::format("a constant or the nesting of the arguments is another: traced {}, given {}",
                       argument_tree(state.argument_structure).str(), argument_tree(call.arguments.structure).str());
  }
  for (const AmbientFact& fact : kAmbientFacts) {
    if (fact.differs(state.ambient, call.ambient)) return fmt::format("{} was switched", fact.name);
  }
  return entry.executable().signature().mismatch(call.arguments.tensors, /*exactly=*/true);
}

}  // namespace

struct CompiledGraphs::State {
  CompileOptions options;
  std::source_location where;
  std::mutex tracing;               // held by the one thread that traces this function
  mutable std::shared_mutex mutex;  // guards the entries
  std::vector<std::shared_ptr<const Entry>> entries;
  std::map<std::string, size_t> differences;  // headline → how often; guarded by `tracing`
  bool warned = false;                        // guarded by `tracing`

  std::shared_ptr<const Entry> find(const Call& call) const {
    std::shared_lock lock(mutex);
    // The newest first: a function that settles on a signature does so late.
    for (size_t i = entries.size(); i-- > 0;) {
      if (entries[i]->serves(call)) return entries[i];
    }
    return nullptr;
  }

  Entry make_entry(const FlatCallable& function, const Call& call) const {
    std::optional<GraphBreak> asked;
    try {
      const NativeCode native = options.native ? native_code(options.wait) : NativeCode::None;
      return {TracedGraph::record(function, call.arguments, options.name, &asked, native, options.freeze),
              call.types_and_state,
              {}};
    } catch (...) {
      if (!asked || options.fullgraph) throw;
    }
    auto nothing = [](const FlatValues&) { return FlatValues{}; };
    return {TracedGraph::record(nothing, call.arguments, options.name), call.types_and_state, asked};
  }

  void note_difference(const Call& call) {
    if (entries.empty()) return;
    const std::string text = difference(*entries.back(), call);
    ++differences[text.substr(0, text.find(": "))];
  }

  void warn_once(const Call& call) {
    if (warned) return;
    warned = true;
    std::string most = "its signature changed";
    size_t count = 0;
    for (const auto& [headline, times] : differences) {
      if (times > count) most = headline, count = times;
    }
    const std::string last = entries.empty() ? std::string() : difference(*entries.back(), call);
    TORCH_WARN(
        "firesteel: `", options.name, "`, compiled at ", where.file_name(), ":", where.line(), ", has ", entries.size(),
        " graphs, the limit; calls that fit none of them run without one from now on\n  what kept changing: ", most,
        " (", count, " times)\n  last: ", last, "\n  try: CompileOptions::recompile_limit, or fewer different inputs");
  }
};

CompiledGraphs::CompiledGraphs(CompileOptions options, std::source_location where) : state_(std::make_unique<State>()) {
  if (options.native) check_native_settings();
  state_->options = std::move(options);
  state_->where = where;
}
CompiledGraphs::~CompiledGraphs() = default;

std::optional<CompiledGraphs::Result> CompiledGraphs::call(const FlatValues& arguments, const FlatCallable& function,
                                                           std::string_view types) {
  // Inside another trace the function's operators are recorded there, one by one.
  if (is_tracing()) return std::nullopt;
  for (const at::Tensor& tensor : arguments.tensors) {
    if (is_traced_tensor(tensor) || (tensor.defined() && has_tangent(tensor))) return std::nullopt;
  }
  Call call{arguments, std::string(types)};
  if (state_->options.state) call.types_and_state += state_->options.state();

  std::shared_ptr<const Entry> entry = state_->find(call);
  if (!entry) {
    std::lock_guard tracing(state_->tracing);
    entry = state_->find(call);  // another thread may have made it meanwhile
    if (!entry) {
      state_->note_difference(call);
      if (state_->entries.size() >= state_->options.recompile_limit) {
        state_->warn_once(call);
        return std::nullopt;
      }
      entry = std::make_shared<Entry>(state_->make_entry(function, call));
      std::unique_lock lock(state_->mutex);
      state_->entries.push_back(entry);
    }
  }
  if (entry->graph_break) return std::nullopt;
  return Result{entry->executable().run(arguments.tensors), entry->graph};
}

std::vector<TracedGraph> CompiledGraphs::graphs() const {
  std::shared_lock lock(state_->mutex);
  std::vector<TracedGraph> graphs;
  for (const auto& entry : state_->entries) {
    if (!entry->graph_break) graphs.push_back(entry->graph);
  }
  return graphs;
}

std::vector<GraphBreak> CompiledGraphs::breaks() const {
  std::shared_lock lock(state_->mutex);
  std::vector<GraphBreak> breaks;
  for (const auto& entry : state_->entries) {
    if (entry->graph_break) breaks.push_back(*entry->graph_break);
  }
  return breaks;
}

}  // namespace firesteel
