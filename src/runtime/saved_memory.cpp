// Counts what is freed, and asks malloc to let go of it.
#include "runtime/saved_memory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <malloc.h>
#include <sys/resource.h>

#include "runtime/buffer_pool.h"

namespace firesteel {
namespace {

constexpr int64_t kLeast = int64_t{2} << 20;  // bytes; for less it is not worth a walk through malloc's lists
constexpr int64_t kTimes = 8;                 // a backward at most

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

}  // namespace

SavedMemory::SavedMemory(std::span<const at::Tensor> slots, std::span<const int32_t> saved) {
  int64_t all = 0;
  for (int32_t slot : saved) all += own_bytes(slots[slot]);
  step_ = all < kLeast ? std::numeric_limits<int64_t>::max() : std::max(kLeast, all / kTimes);
  if (all >= kLeast) peak_ = peak_bytes();
}

int64_t SavedMemory::own_bytes(const at::Tensor& tensor) {
  return tensor.defined() && is_sole_owner(tensor) ? static_cast<int64_t>(tensor.storage().nbytes()) : 0;
}

void SavedMemory::give_back() {
  const int64_t before = std::exchange(peak_, peak_bytes());
  if (peak_ - before < std::exchange(freed_, 0) / kTimes) return;
#ifdef __GLIBC__
  malloc_trim(0);
  count_room_made();
#endif
}

}  // namespace firesteel
