// The rows, and the switch: a watcher that looks at nothing, so that runs go the way of those that are watched.
#include "runtime/run_costs.h"

#include <atomic>
#include <mutex>
#include <optional>

#include <ATen/record_function.h>

namespace firesteel {
namespace {

std::atomic<bool> g_is_on{false};
constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

struct RunCosts::Row {
  std::atomic<uint64_t> runs{0}, nanoseconds{0}, bytes_read{0}, bytes_made{0};
};

RunCosts::RunCosts(size_t rows) : rows_(std::make_unique<Row[]>(rows)) {}
RunCosts::~RunCosts() = default;

void RunCosts::add(size_t row, const RunCost& run) {
  Row& sum = rows_[row];
  sum.runs.fetch_add(run.runs, kRelaxed);
  sum.nanoseconds.fetch_add(static_cast<uint64_t>(run.seconds * 1e9), kRelaxed);
  sum.bytes_read.fetch_add(run.bytes_read, kRelaxed);
  sum.bytes_made.fetch_add(run.bytes_made, kRelaxed);
}

RunCost RunCosts::at(size_t row) const {
  const Row& sum = rows_[row];
  return {sum.runs.load(kRelaxed), static_cast<double>(sum.nanoseconds.load(kRelaxed)) / 1e9,
          sum.bytes_read.load(kRelaxed), sum.bytes_made.load(kRelaxed)};
}

bool is_profiling() { return g_is_on.load(kRelaxed); }

void set_profiling(bool on) {
  static std::mutex mutex;
  static std::optional<at::CallbackHandle> handle;
  std::lock_guard lock(mutex);
  if (on == handle.has_value()) return;
  if (on) {
    handle = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  } else {
    at::removeCallback(*handle);
    handle.reset();
  }
  g_is_on = on;
}

}  // namespace firesteel
