// Idle buffers by size, the oldest to go first; one lock, taken for a few instructions.
#include "runtime/buffer_pool.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

namespace firesteel {
namespace {

constexpr size_t kSmallest = size_t{256} << 10;       // bytes; less is malloc's business
constexpr size_t kStep = size_t{64} << 10;            // sizes are rounded up, so that near ones share
constexpr size_t kHugePage = size_t{2} << 20;         // worth asking the system for its large pages
constexpr int64_t kLargestIdle = int64_t{512} << 20;  // bytes kept at most, unless FIRESTEEL_POOL_LIMIT says else
// Large tensors of torch all begin at the same place of a page. Where a result does as well, a load waits for a store
// before it to the same place of another page, and both want the same few lines of the nearest cache.
constexpr size_t kApart = size_t{1} << 10, kPlaces = 3;
constexpr double kWaste = 1.25;  // a buffer serves what needs this part of it

struct Buffer {
  void* memory;
  size_t bytes;
  size_t start;  // where in it a tensor begins
  uint64_t age;  // how many were given out before
};

thread_local uint64_t returned_before = 0;  // buffers of a lower age are not kept

class Pool {
 public:
  Buffer take(size_t bytes) {
    const size_t wanted = (bytes + kStep - 1) / kStep * kStep;
    size_t shift = 0;
    uint64_t age = 0;
    {
      std::lock_guard lock(mutex_);
      age = given_out_++;
      auto found = by_size_.lower_bound(wanted);
      if (found != by_size_.end() && static_cast<double>(found->first) <= static_cast<double>(wanted) * kWaste) {
        found = std::prev(by_size_.upper_bound(found->first));  // the last one given back: most of it in caches
        Buffer buffer = *found->second;
        buffer.age = age;
        idle_.erase(found->second);
        by_size_.erase(found);
        counters_.idle_bytes -= static_cast<int64_t>(buffer.bytes);
        ++counters_.reused;
        return buffer;
      }
      shift = (1 + counters_.fresh % kPlaces) * kApart;
      ++counters_.fresh;
    }
    Buffer buffer{c10::alloc_cpu(wanted + shift), wanted, shift, age};
    if (wanted >= 2 * kHugePage) {
      void* start = buffer.memory;
      size_t room = wanted;
      if (std::align(kHugePage, kHugePage, start, room)) madvise(start, room / kHugePage * kHugePage, MADV_HUGEPAGE);
    }
    return buffer;
  }

  void give_back(Buffer buffer) {
    std::list<Buffer> dropped;
    if (buffer.age < returned_before) {
      {
        std::lock_guard lock(mutex_);
        ++counters_.returned;
      }
      return c10::free_cpu(buffer.memory);
    }
    {
      std::lock_guard lock(mutex_);
      idle_.push_back(buffer);
      by_size_.emplace(buffer.bytes, std::prev(idle_.end()));
      counters_.idle_bytes += static_cast<int64_t>(buffer.bytes);
      while (counters_.idle_bytes > limit_) drop_oldest(dropped);
    }
    for (const Buffer& old : dropped) c10::free_cpu(old.memory);
  }

  void empty() {
    std::list<Buffer> dropped;
    {
      std::lock_guard lock(mutex_);
      while (!idle_.empty()) drop_oldest(dropped);
    }
    for (const Buffer& old : dropped) c10::free_cpu(old.memory);
  }

  PoolCounters counters() {
    std::lock_guard lock(mutex_);
    return counters_;
  }
  void reset_counters() {
    std::lock_guard lock(mutex_);
    counters_.fresh = counters_.reused = counters_.returned = counters_.room_made = 0;
  }
  void count_room_made() {
    std::lock_guard lock(mutex_);
    ++counters_.room_made;
  }
  uint64_t given_out() {
    std::lock_guard lock(mutex_);
    return given_out_;
  }

  std::mutex& mutex() { return mutex_; }

 private:
  void drop_oldest(std::list<Buffer>& dropped) {
    const auto oldest = idle_.begin();
    auto [first, last] = by_size_.equal_range(oldest->bytes);
    while (first != last && first->second != oldest) ++first;
    by_size_.erase(first);
    counters_.idle_bytes -= static_cast<int64_t>(oldest->bytes);
    dropped.splice(dropped.end(), idle_, oldest);
  }

  static int64_t limit() {
    const char* asked = std::getenv("FIRESTEEL_POOL_LIMIT");
    return asked ? std::atoll(asked) : kLargestIdle;
  }

  std::mutex mutex_;
  std::list<Buffer> idle_;  // the oldest first
  std::multimap<size_t, std::list<Buffer>::iterator> by_size_;
  PoolCounters counters_;
  uint64_t given_out_ = 0;
  const int64_t limit_ = limit();
};

// Tensors may die while the process ends, and a child must not find the lock taken by a thread it does not have.
Pool& pool() {
  static Pool* shared = [] {
    auto* made = new Pool();
    pthread_atfork([] { pool().mutex().lock(); }, [] { pool().mutex().unlock(); }, [] { pool().mutex().unlock(); });
    return made;
  }();
  return *shared;
}

void release(void* context) {
  auto* buffer = static_cast<Buffer*>(context);
  pool().give_back(*buffer);
  delete buffer;
}

}  // namespace

at::Tensor pooled_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  size_t elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) elements = 0;
    if (elements) elements += static_cast<size_t>(sizes[d] - 1) * static_cast<size_t>(strides[d]);
  }
  const size_t bytes = elements * c10::elementSize(dtype);
  if (bytes < kSmallest) return at::empty_strided(sizes, strides, at::TensorOptions(dtype));
  auto* buffer = new Buffer(pool().take(bytes));
  void* data = static_cast<std::byte*>(buffer->memory) + buffer->start;
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(data, buffer, &release, c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

ReturnsOlderMemory::ReturnsOlderMemory() : outer_(std::exchange(returned_before, pool().given_out())) {}
ReturnsOlderMemory::~ReturnsOlderMemory() { returned_before = outer_; }

void count_room_made() { pool().count_room_made(); }
PoolCounters pool_counters() { return pool().counters(); }
void reset_pool_counters() { pool().reset_counters(); }
void empty_pool() { pool().empty(); }

}  // namespace firesteel
