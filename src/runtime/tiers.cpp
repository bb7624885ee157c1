// The switch from ATen to native code.
#include "runtime/tiers.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <ATen/Context.h>

#include "freeze/freeze.h"
#include "fuse/attention_choice.h"
#include "fuse/from_end.h"
#include "fuse/library_choice.h"
#include "fuse/loss_parts.h"
#include "fuse/table_gradients.h"
#include "graph/data_symbols.h"
#include "runtime/frozen_weights.h"

namespace firesteel {

FuseOptions fuse_options() {
  FuseOptions options;
  const char* set = std::getenv("FIRESTEEL_SMALLEST_KERNEL");
  if (set && std::string_view(set) == "1") options.smallest_group = 1;
  return options;
}

bool prepare_for_native(Graph& graph) {
  bool changed = false;
  for (auto* change : {choose_libraries, choose_attention, split_losses, choose_table_gradients, join_flipped_sums})
    changed = change(graph) || changed;
  return changed;
}

NativeCode native_code(bool wait) {
  const char* set = std::getenv("FIRESTEEL_WAIT");
  wait = wait || (set && std::string_view(set) != "0") || at::globalContext().deterministicAlgorithms();
  return wait ? NativeCode::AtOnce : NativeCode::WhenReady;
}

void check_native_settings() {
  check_kernel_target();
  check_matmul_setting();
  check_attention_setting();
}

// The weights, and what runs once they have changed too often.
struct TieredProgram::Frozen {
  FrozenWeights weights;
  Graph run, graph;
  NativeCode native;
  std::once_flag thawed;
  std::optional<TieredProgram> plain;
};

TieredProgram::TieredProgram(const Graph& graph, NativeCode native, bool freeze) : aten_(graph) {
  // Sizes that the run finds out are ATen's.
  if (native == NativeCode::None || !can_compile_kernels() || has_data_symbols(graph)) return;
  const bool open = has_symbols(graph);
  Graph chosen = graph.clone();
  bool changed = false;
  if (std::optional<FrozenGraph> made = freeze && !open ? firesteel::freeze(graph) : std::nullopt) {
    chosen = made->run.clone();
    frozen_.reset(new Frozen{
        FrozenWeights(made->prepare, std::move(made->weights)), std::move(made->run), graph.clone(), native, {}, {}});
    for (Graph* kept : {&frozen_->run, &frozen_->graph}) {
      for (Input& input : kept->inputs) input.captured.reset();  // others hold the weights
    }
    changed = true;
  }
  changed = prepare_for_native(chosen) || changed;
  if (native == NativeCode::AtOnce) {
    ProgramOptions options;
    options.native = true;
    options.fuse = fuse_options();
    native_.emplace(chosen, options);
    state_ = State::Native;
    // One size keeps to one code, so that its results stay the same to the last bit.
    if (open && !native_->each_run().open_kernels) sized_ = std::make_unique<SizedPrograms>(graph.clone(), native);
    return;
  }
  if (open) sized_ = std::make_unique<SizedPrograms>(graph.clone(), native);
  const std::vector<FusedGroup> groups = fuse(chosen, fuse_options());
  if (groups.empty() && !changed) return;
  std::vector<LoopKernel> kernels;
  for (const FusedGroup& group : groups) kernels.push_back(group.kernel);
  native_.emplace(chosen, groups);
  job_ = compile_in_background(std::move(kernels));
  state_ = State::Waiting;
}

const Program* TieredProgram::native_by_now() const {
  if (state_.load(std::memory_order_acquire) == State::Aten) return nullptr;
  // A thread that finds another at it need not wait for it.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || (state_ == State::Waiting && !job_->done())) return nullptr;
  if (state_ == State::Waiting) {
    const bool all = all_made(job_->functions());
    if (all) native_->provide(job_->functions());
    job_.reset();
    state_.store(all ? State::Native : State::Aten, std::memory_order_release);
  }
  return state_ == State::Native ? &*native_ : nullptr;
}

ProgramCosts TieredProgram::costs() const {
  const State state = tier();
  if (state == State::Waiting) return {};
  return state == State::Native ? native_->costs() : aten_.costs();
}

const Graph* TieredProgram::frozen_graph() const { return frozen_ ? &frozen_->run : nullptr; }

RunCost TieredProgram::cost_before() const {
  RunCost sum;
  if (tier() == State::Aten) return sum;
  for (const RunCost& node : aten_.costs().nodes) {
    sum.runs = std::max(sum.runs, node.runs);
    sum.seconds += node.seconds;
  }
  return sum;
}

std::vector<at::Tensor> TieredProgram::run(std::vector<at::Tensor> inputs, std::span<const int64_t> symbols) const {
  if (sized_) {
    const std::shared_ptr<const TieredProgram> one_size = sized_->find(symbols);
    if (const Program* code = one_size ? one_size->native() : nullptr) return code->run(std::move(inputs));
  }
  const Program* code = native();
  if (frozen_ && code) {
    if (auto prepared = frozen_->weights.find(inputs)) {
      inputs.insert(inputs.end(), prepared->begin(), prepared->end());
      return code->run(std::move(inputs));
    }
    std::call_once(frozen_->thawed, [&] { frozen_->plain.emplace(frozen_->graph, frozen_->native); });
    return frozen_->plain->run(std::move(inputs), {});
  }
  return (code && code->fits(symbols) ? *code : aten_).run(std::move(inputs), symbols);
}

struct SizedPrograms::Entry {
  SymbolValues symbols;
  uint64_t calls = 0, last_call = 0;
  std::shared_ptr<const TieredProgram> program;
};

namespace {

constexpr size_t kMostSizes = 16;         // that are counted, or have a program
constexpr uint64_t kCallsBeforeCode = 3;  // of one size, before it gets code of its own

}  // namespace

SizedPrograms::SizedPrograms(Graph graph, NativeCode native) : graph_(std::move(graph)), native_(native) {}
SizedPrograms::~SizedPrograms() = default;

std::shared_ptr<const TieredProgram> SizedPrograms::find(std::span<const int64_t> symbols) const {
  std::lock_guard lock(mutex_);
  static std::atomic<uint64_t> clock{0};
  const uint64_t now = ++clock;
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return std::equal(entry.symbols.begin(), entry.symbols.end(), symbols.begin(), symbols.end());
  });
  if (found == entries_.end()) {
    // The one that was met least lately makes room.
    if (entries_.size() == kMostSizes) {
      entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                      [](const Entry& a, const Entry& b) { return a.last_call < b.last_call; }));
    }
    found = entries_.insert(entries_.end(), Entry{SymbolValues(symbols.begin(), symbols.end()), 0, now, nullptr});
  }
  found->last_call = now;
  ++found->calls;
  const bool at_once = native_ == NativeCode::AtOnce;
  if (!found->program && (at_once || found->calls >= kCallsBeforeCode))
    found->program = std::make_shared<const TieredProgram>(with_sizes(graph_, symbols), native_);
  return found->program;
}

}  // namespace firesteel
