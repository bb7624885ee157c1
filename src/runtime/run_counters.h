// What has been run: how many operators in native kernels, and how many by ATen. A fallback proves nothing, so tests
// ask.
#pragma once

#include <cstdint>

#include "firesteel/export.h"

namespace firesteel {

struct RunCounters {
  uint64_t native_ops = 0;      // operators that ran inside kernels
  uint64_t aten_ops = 0;        // operators called one by one, views included
  uint64_t kernels = 0;         // kernels called
  uint64_t onednn_matmuls = 0;  // of those by ATen, products given to oneDNN
  uint64_t open_kernels = 0;    // of the kernels, those that are for many sizes
};
FIRESTEEL_API RunCounters run_counters();
FIRESTEEL_API void reset_run_counters();
void count_run(const RunCounters& run);  // adds to them
void count_onednn_product();             // of one that was chosen as it ran

}  // namespace firesteel
