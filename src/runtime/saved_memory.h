// What becomes of the memory of saved values while a backward frees them, one by one.
//
// Gradients are allocated by libraries, and seldom fit the holes that saved values leave in malloc's heap. From time to
// time the free pages among them go back to the system, so that no step holds its gradients and its saved values at
// once: but only where the process grows past the most that it ever took. Below that nothing is to be gained, and fresh
// pages are dear.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

namespace firesteel {

// No other tensor and no view has this memory.
inline bool is_sole_owner(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1 &&
         tensor.storage_offset() == 0;
}

class SavedMemory {
 public:
  // `saved`: the slots of values that may have been saved for this run alone.
  SavedMemory(std::span<const at::Tensor> slots, std::span<const int32_t> saved);

  void about_to_free(std::span<const at::Tensor> slots, std::span<const int32_t> last_saved) {
    for (int32_t slot : last_saved) freed_ += own_bytes(slots[slot]);
  }
  void make_room() {
    if (freed_ >= step_) [[unlikely]]
      give_back();
  }

 private:
  static int64_t own_bytes(const at::Tensor& tensor);
  void give_back();

  int64_t freed_ = 0, step_ = 0;
  int64_t peak_ = 0;  // the most bytes that the process took, as last seen
};

}  // namespace firesteel
