// Runs a region's backward graph when autograd asks for it.
#include "runtime/backward_node.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "base/error.h"
#include "runtime/watched_runs.h"

namespace firesteel {
namespace {

// The backward graph was traced for gradients of one layout; views in it need exactly that.
at::Tensor as_traced(const at::Tensor& gradient, const Type& type, std::span<const int64_t> symbols) {
  const std::vector<int64_t> sizes = sizes_of(type.sizes, symbols), strides = sizes_of(type.strides, symbols);
  const auto options = at::TensorOptions().dtype(type.dtype).device(type.device);
  if (!gradient.defined()) return at::empty_strided(sizes, strides, options).zero_();
  if (gradient.strides() == at::IntArrayRef(strides) && !gradient.is_conj() && !gradient.is_neg()) return gradient;
  return at::empty_strided(sizes, strides, options).copy_(gradient);
}

}  // namespace

torch::autograd::variable_list BackwardNode::apply(torch::autograd::variable_list&& gradients) {
  std::lock_guard lock(mutex_);
  FS_REQUIRE(!released_, Error,
             "the values saved for the backward of `{}` have been freed: it was already run once\n"
             "  try: backward(retain_graph=True) the first time",
             plan_->name);
  const bool differentiable = c10::GradMode::is_enabled();
  torch::autograd::variable_list results;
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    std::vector<at::Tensor> inputs;
    inputs.reserve(saved_.size() + gradients.size());
    for (const auto& saved : saved_) inputs.push_back(saved.unpack(getptr()));
    for (size_t i = 0; i < gradients.size(); ++i)
      inputs.push_back(as_traced(gradients[i], plan_->tangents[i], symbols_));
    gradients.clear();
    std::optional<WatchedRun> shown;
    if (is_watched()) shown.emplace(std::string(kWatchedPrefix) + plan_->name);
    results = plan_->program.run(std::move(inputs), symbols_);
  }
  if (!differentiable) return results;
  // create_graph=True: the gradients are right, but their own gradients would not be; say so when asked for.
  auto refusal = make_autograd_node<torch::autograd::Error>(
      "`" + plan_->name + "` is compiled for first derivatives only: its gradients cannot be differentiated again");
  for (at::Tensor& result : results) {
    if (result.defined() && (result.is_floating_point() || result.is_complex()))
      torch::autograd::set_history(result, refusal);
  }
  return results;
}

void BackwardNode::release_variables() {
  std::lock_guard lock(mutex_);
  saved_.clear();
  released_ = true;
}

}  // namespace firesteel
