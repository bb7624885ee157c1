// The counters of all threads together.
#include "runtime/run_counters.h"

#include <atomic>

#include "runtime/fastest.h"
#include "runtime/frozen_weights.h"

namespace firesteel {
namespace {

std::atomic<uint64_t> g_native_ops{0}, g_aten_ops{0}, g_kernels{0}, g_onednn_matmuls{0}, g_open_kernels{0};

}  // namespace

RunCounters run_counters() { return {g_native_ops, g_aten_ops, g_kernels, g_onednn_matmuls, g_open_kernels}; }

void reset_run_counters() {
  g_native_ops = g_aten_ops = g_kernels = g_onednn_matmuls = g_open_kernels = 0;
  reset_frozen_counters();
  reset_contest_counters();
}

void count_run(const RunCounters& run) {
  constexpr auto order = std::memory_order_relaxed;
  g_native_ops.fetch_add(run.native_ops, order);
  g_aten_ops.fetch_add(run.aten_ops, order);
  g_kernels.fetch_add(run.kernels, order);
  g_onednn_matmuls.fetch_add(run.onednn_matmuls, order);
  g_open_kernels.fetch_add(run.open_kernels, order);
}

void count_onednn_product() { g_onednn_matmuls.fetch_add(1, std::memory_order_relaxed); }

}  // namespace firesteel
