// Runs a region's backward graph when autograd asks for it.
#include "runtime/backward_node.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include "base/error.h"
#include "partition/missing_tangents.h"
#include "runtime/buffer_pool.h"
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

// Of each output, the tangents among the inputs that it is computed from.
std::vector<std::vector<size_t>> tangents_behind(const Graph& graph) {
  std::unordered_map<const Value*, std::set<size_t>> behind;
  size_t tangents = 0;
  for (const Input& input : graph.inputs) {
    if (input.role == InputRole::Tangent) behind[input.value.get()].insert(tangents++);
  }
  if (tangents < 2) return {};  // autograd asks only where there is a gradient
  auto add = [&](std::set<size_t>& all, const Value* input) {
    if (auto found = behind.find(input); found != behind.end()) all.insert(found->second.begin(), found->second.end());
  };
  for (const auto& node : graph.nodes) {
    std::set<size_t> all;
    std::as_const(*node).each_input([&](const Value* input) { add(all, input); });
    for (const auto& output : node->outputs) behind.emplace(output.get(), all);
  }
  std::vector<std::vector<size_t>> sources;
  for (const Arg& output : graph.outputs) {
    std::set<size_t> all;
    output.each_value([&](const Value* value) { add(all, value); });
    sources.emplace_back(all.begin(), all.end());
  }
  return sources;
}

// Operators of others, and backward functions in Python.
bool has_user_code(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    if (!node->op.is_aten()) return true;
    const std::string& name = node->op.aten->operator_name().name;
    return !name.starts_with("aten::") && (!name.starts_with("firesteel::") || name == "firesteel::opaque_backward");
  });
}

}  // namespace

BackwardVersion::BackwardVersion(Graph made, NativeCode native)
    : graph(std::move(made)), program(graph, native), reads(read_tangents(graph)) {}

BackwardPlan::BackwardPlan(std::string called, const Graph& graph, NativeCode native, std::vector<Type> traced_tangents)
    : name(std::move(called)),
      tangents(std::move(traced_tangents)),
      sources(tangents_behind(graph)),
      calls_user_code(has_user_code(graph)),
      native_(native),
      whole_(std::make_shared<const BackwardVersion>(graph.clone(), native)) {}

BackwardPlan::VersionRef BackwardPlan::version_for(const std::vector<bool>& given) const {
  constexpr size_t kMostNative = 4, kMost = 32;  // who asks for ever new sets of results gets no code for each
  std::lock_guard lock(mutex_);
  if (std::find(given.begin(), given.end(), false) == given.end()) return last_ = whole_;
  auto found = parts_.find(given);
  if (found == parts_.end()) {
    if (parts_.size() >= kMost) parts_.erase(parts_.begin());
    const NativeCode native = parts_.size() < kMostNative ? native_ : NativeCode::None;
    auto made = std::make_shared<const BackwardVersion>(without_tangents(whole_->graph, given), native);
    found = parts_.emplace(given, std::move(made)).first;
  }
  return last_ = found->second;
}

BackwardPlan::VersionRef BackwardPlan::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

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
    // Where nobody runs it again, each value dies at its last use. A program that calls the user's code may fail there,
    // and be run again as in eager.
    if (!torch::autograd::get_current_graph_task_keep_graph() && !plan_->calls_user_code) release();
    std::vector<bool> given;
    for (const at::Tensor& gradient : gradients) given.push_back(gradient.defined());
    const BackwardPlan::VersionRef version = plan_->version_for(given);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const bool read = version->reads[i];
      inputs.push_back(read ? as_traced(gradients[i], plan_->tangents[i], symbols_) : at::Tensor());
    }
    gradients.clear();
    std::optional<WatchedRun> shown;
    if (is_watched()) shown.emplace(std::string(kWatchedPrefix) + plan_->name);
    ReturnsOlderMemory makes_room;
    results = version->program.run(std::move(inputs), symbols_);
    // Results of the forward that nobody used: what was behind them alone has no gradient, rather than zeros.
    for (size_t i = 0; i < plan_->sources.size(); ++i) {
      const std::vector<size_t>& from = plan_->sources[i];
      if (!from.empty() && std::none_of(from.begin(), from.end(), [&](size_t tangent) { return given[tangent]; }))
        results[i] = at::Tensor();
    }
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

void BackwardNode::release() {
  saved_.clear();
  released_ = true;
}

void BackwardNode::release_variables() {
  std::lock_guard lock(mutex_);
  release();
}

}  // namespace firesteel
