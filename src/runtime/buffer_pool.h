// Memory for kernels' results: kept when the tensor dies, and given out again.
//
// The first touch of a fresh page costs more than most kernels take to fill it. Small buffers are left to malloc, which
// keeps them by itself.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "firesteel/export.h"

namespace firesteel {

// As at::empty_strided on the CPU; the memory of a large one may have been another tensor's that is gone.
FIRESTEEL_API at::Tensor pooled_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

// While it lives, what this thread frees of memory that was given out before goes to malloc: values saved for a
// backward that runs make room for the gradients, which libraries allocate.
class FIRESTEEL_API ReturnsOlderMemory {
 public:
  ReturnsOlderMemory();
  ~ReturnsOlderMemory();
  ReturnsOlderMemory(const ReturnsOlderMemory&) = delete;
  ReturnsOlderMemory& operator=(const ReturnsOlderMemory&) = delete;

 private:
  uint64_t outer_;
};

struct PoolCounters {
  uint64_t fresh = 0;      // buffers that had to be allocated
  uint64_t reused = 0;     // buffers given out again
  uint64_t returned = 0;   // buffers that went to malloc although there was room for them
  uint64_t room_made = 0;  // times that a backward gave free memory back to the system
  int64_t idle_bytes = 0;  // kept for later, now
};
void count_room_made();
FIRESTEEL_API PoolCounters pool_counters();
FIRESTEEL_API void reset_pool_counters();  // what lies idle stays, and its count
// Gives back to the system what is idle.
FIRESTEEL_API void empty_pool();

}  // namespace firesteel
