// What was prepared of weights, kept until one of them changes.
#pragma once

#include <memory>
#include <mutex>

#include "freeze/freeze.h"
#include "runtime/program.h"

namespace firesteel {

// How many calls took prepared weights, and how often such were prepared.
struct FrozenCounters {
  uint64_t runs = 0, preparations = 0;
};
FIRESTEEL_API FrozenCounters frozen_counters();
void reset_frozen_counters();

class FrozenWeights {
 public:
  FrozenWeights(const Graph& prepare, std::vector<size_t> weights);

  // What `prepare` gives for these inputs of a call, computed anew where a weight is another one or was written to.
  // Null once that has happened too often to gain anything. Any number of threads may ask.
  std::shared_ptr<const std::vector<at::Tensor>> find(const std::vector<at::Tensor>& inputs) const;

 private:
  // A weight as it was. Held weakly: no other tensor can take its address.
  struct Seen {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    const void* data = nullptr;
    uint32_t version = 0;
    bool is(const at::Tensor& given) const;
  };

  Program prepare_;
  std::vector<size_t> weights_;
  mutable std::mutex mutex_;
  mutable std::vector<Seen> seen_;
  mutable std::shared_ptr<const std::vector<at::Tensor>> prepared_;
  mutable int times_ = 0;
};

}  // namespace firesteel
