// Compares versions at each call, which costs a few nanoseconds a weight.
#include "runtime/frozen_weights.h"

#include <atomic>

namespace firesteel {
namespace {

constexpr int kMostTimes = 8;  // that weights are prepared for one graph

std::atomic<uint64_t> g_runs{0}, g_preparations{0};

}  // namespace

FrozenCounters frozen_counters() { return {g_runs, g_preparations}; }
void reset_frozen_counters() { g_runs = g_preparations = 0; }

FrozenWeights::FrozenWeights(const Graph& prepare, std::vector<size_t> weights)
    : prepare_(prepare), weights_(std::move(weights)) {}

bool FrozenWeights::Seen::is(const at::Tensor& given) const {
  return tensor._unsafe_get_target() == given.unsafeGetTensorImpl() && version == given._version() &&
         data == given.const_data_ptr();
}

std::shared_ptr<const std::vector<at::Tensor>> FrozenWeights::find(const std::vector<at::Tensor>& inputs) const {
  const std::scoped_lock lock(mutex_);
  for (size_t place : weights_) {
    if (inputs[place].is_inference()) return nullptr;  // nobody counts its changes
  }
  bool same = prepared_ != nullptr;
  for (size_t i = 0; same && i < weights_.size(); ++i) same = seen_[i].is(inputs[weights_[i]]);
  if (same) {
    g_runs.fetch_add(1, std::memory_order_relaxed);
    return prepared_;
  }
  prepared_ = nullptr;
  if (times_ == kMostTimes) return nullptr;
  ++times_;
  ++g_preparations;
  ++g_runs;
  seen_.clear();
  for (size_t place : weights_) {
    const at::Tensor& weight = inputs[place];
    seen_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(weight.getIntrusivePtr()),
                     weight.const_data_ptr(), static_cast<uint32_t>(weight._version())});
  }
  prepared_ = std::make_shared<const std::vector<at::Tensor>>(prepare_.run(inputs));
  return prepared_;
}

}  // namespace firesteel
