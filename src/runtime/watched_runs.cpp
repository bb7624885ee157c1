// Names for runs, and a log that listens as torch.profiler does.
#include "runtime/watched_runs.h"

#include <chrono>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

namespace firesteel {
namespace {

constexpr size_t kMostRuns = 1'000'000;
constexpr size_t kMostNames = 6;  // of a kernel's operators

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Log {
  std::mutex mutex;  // guards all below
  RunLog kept;
  std::optional<at::CallbackHandle> handle;
};

Log& log() {
  static auto* shared = new Log();  // runs may end while the process does
  return *shared;
}

struct Begun final : at::ObserverContext {
  double at = seconds_now();
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& run) {
  if (!std::string_view(run.name()).starts_with(kWatchedPrefix)) return nullptr;
  return std::make_unique<Begun>();
}

void end(const at::RecordFunction& run, at::ObserverContext* context) {
  if (!context) return;
  const double now = seconds_now(), began = static_cast<const Begun*>(context)->at;
  Log& all = log();
  std::lock_guard lock(all.mutex);
  if (!all.handle) return;
  if (all.kept.runs.size() == kMostRuns) {
    ++all.kept.left_out;
    return;
  }
  all.kept.runs.push_back({run.name(), static_cast<uint64_t>(gettid()), began, now - began});
}

// "add" of aten.add.Tensor.
std::string short_name(const Op& op) {
  const std::string text = op.str();
  const size_t first = text.find('.') + 1;
  return text.substr(first, text.find('.', first) - first);
}

}  // namespace

WatchedRun::WatchedRun(std::string_view name) : record_(at::RecordScope::FUNCTION) {
  if (record_.isActive()) record_.before(name);
}

std::string watched_place(std::string_view path, int64_t line) {
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), line);
}

std::string watched_name(std::span<const Node* const> nodes, bool is_kernel) {
  std::string name(kWatchedPrefix);
  const SourceLocation* place = nullptr;
  if (is_kernel) name += "kernel ";
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i < kMostNames) name += (i ? ", " : "") + (is_kernel ? short_name(nodes[i]->op) : nodes[i]->op.str());
    if (i == kMostNames) name += ", …";
    if (nodes[i]->source && nodes[i]->source->file) place = nodes[i]->source.get();
  }
  return place ? fmt::format("{} ({})", name, watched_place(place->file->path, place->line)) : name;
}

void start_run_log() {
  Log& all = log();
  std::lock_guard lock(all.mutex);
  if (all.handle) return;
  all.kept = {};
  all.handle = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::FUNCTION}));
}

RunLog stop_run_log() {
  Log& all = log();
  std::lock_guard lock(all.mutex);
  if (all.handle) at::removeCallback(*std::exchange(all.handle, std::nullopt));
  return std::exchange(all.kept, {});
}

}  // namespace firesteel
