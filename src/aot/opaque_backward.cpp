// The operator `firesteel::opaque_backward`, and the way into the graph for it.
#include "aot/opaque_backward.h"

#include <algorithm>
#include <unordered_set>

#include <ATen/ExpandUtils.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include "aot/fake_tensor.h"
#include "aot/recorder.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

using Backward = c10::intrusive_ptr<OpaqueBackward>;
using Gradients = c10::List<std::optional<at::Tensor>>;

std::vector<int64_t> sizes_of(const Type& type) {
  std::vector<int64_t> sizes;
  for (const Dim& size : type.sizes) sizes.push_back(size.number());
  return sizes;
}

at::TensorOptions options_of(const Type& type) { return at::TensorOptions().dtype(type.dtype).device(type.device); }

// What autograd makes of a gradient before it hands it on; then the layout that was recorded, in memory of its own.
at::Tensor fit(at::Tensor gradient, const OpaqueBackward& backward, size_t index) {
  const Type& type = backward.results[index];
  const std::vector<int64_t> sizes = sizes_of(type);
  TORCH_CHECK(gradient.layout() == at::kStrided, backward.name, " returned a gradient at index ", index,
              " that is not strided, which a compiled backward does not take");
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef(sizes) || at::is_expandable_to(sizes, gradient.sizes()), "Function ",
              backward.name, " returned an invalid gradient at index ", index, " - got ", gradient.sizes(),
              " but expected shape compatible with ", at::IntArrayRef(sizes));
  TORCH_CHECK(c10::isComplexType(type.dtype) == gradient.is_complex(), "Function ", backward.name,
              " returned an invalid gradient at index ", index, " - expected dtype ", type.dtype, " but got ",
              gradient.scalar_type());
  // The compiled code may write over what it reads for the last time: it must be nobody else's.
  const bool is_own = gradient.use_count() == 1 && gradient.storage().use_count() == 1;
  if (gradient.sizes() != at::IntArrayRef(sizes)) gradient = at::sum_to(std::move(gradient), sizes);
  const bool is_ready = is_own && gradient.is_contiguous() && gradient.scalar_type() == type.dtype &&
                        gradient.device() == type.device && !gradient.is_conj() && !gradient.is_neg();
  return is_ready ? gradient.detach() : at::empty(sizes, options_of(type)).copy_(gradient);
}

std::vector<at::Tensor> run(const Backward& backward, const Gradients& given, const std::vector<at::Tensor>& saved) {
  // A node of autograd runs above its keys, with gradients off; the compiled graph around this one runs below.
  const auto local = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard as_in_eager(
      local.included_, local.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> gradients;
  std::vector<std::pair<at::Tensor, int64_t>> versions;
  auto watch = [&](const at::Tensor& tensor) {
    if (tensor.defined() && !tensor.is_inference()) versions.emplace_back(tensor, tensor._version());
  };
  for (size_t i = 0; i < given.size(); ++i) watch(gradients.emplace_back(given.get(i).value_or(at::Tensor())));
  for (const at::Tensor& tensor : saved) watch(tensor);
  std::vector<at::Tensor> results = backward->run(gradients, saved);
  gradients.clear();
  for (const auto& [tensor, version] : versions) {
    TORCH_CHECK(tensor._version() == version, "the backward of ", backward->name,
                " reads data and writes in place to what it was given: a compiled backward cannot hold that\n"
                "  try: write to a copy, or keep the call out of the compiled function");
  }
  TORCH_CHECK(results.size() == backward->results.size(), backward->name, " gave ", results.size(),
              " gradients instead of ", backward->results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) {
      results[i] = fit(std::move(results[i]), *backward, i);
    } else if (!backward->may_miss.at(i)) {
      results[i] = at::zeros(sizes_of(backward->results[i]), options_of(backward->results[i]));
    }
  }
  return results;
}

// What Python gives is checked against numbers: sizes that are symbols are settled.
void settle(Type& type) {
  Recorder* recorder = Recorder::current();
  for (auto* dims : {&type.sizes, &type.strides}) {
    for (Dim& dim : *dims) {
      if (!dim.is_number() && recorder) dim = recorder->symbols->specialise(dim);
    }
  }
}

std::vector<at::Tensor> shapes(const Backward& backward, const Gradients&, const std::vector<at::Tensor>&) {
  std::vector<at::Tensor> results;
  for (Type& type : backward->results) {
    settle(type);
    results.push_back(at::empty(sizes_of(type), at::TensorOptions().dtype(type.dtype).device(at::kMeta)));
  }
  return results;
}

const c10::OperatorHandle& opaque_backward_op() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::opaque_backward", "");
  return op;
}

}  // namespace

BackwardTry::BackwardTry(const std::vector<at::Tensor>& gradients) : gradients_(gradients) {
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined() && as_fake_inside(gradient)) recorder_ = as_fake_inside(gradient)->recorder_ptr();
  }
  if (!recorder_) return;
  node_count_ = recorder_->graph.nodes.size();
  failed_before_ = recorder_->has_read_data();
}

// Functionalization gives a tensor that was written to another value.
bool BackwardTry::is_untouched(const at::Tensor& tensor) const {
  if (!tensor.defined() || !as_fake_inside(tensor)) return true;
  if (at::functionalization::impl::isFunctionalTensor(tensor)) at::functionalization::impl::sync(tensor);
  const Node* made_by = as_fake_inside(tensor)->value()->def;
  const auto& nodes = recorder_->graph.nodes;
  return std::none_of(nodes.begin() + static_cast<ptrdiff_t>(node_count_), nodes.end(),
                      [&](const auto& node) { return node.get() == made_by; });
}

bool BackwardTry::undo(const std::vector<at::Tensor>& saved, bool gave_up) {
  if (!recorder_ || failed_before_ || recorder_->graph_break) return false;
  if (!recorder_->has_read_data() && !gave_up) return false;
  auto untouched = [&](const at::Tensor& tensor) { return is_untouched(tensor); };
  if (!std::all_of(gradients_.begin(), gradients_.end(), untouched)) return false;
  if (!std::all_of(saved.begin(), saved.end(), untouched)) return false;
  const auto& nodes = recorder_->graph.nodes;
  if (!std::all_of(nodes.begin() + static_cast<ptrdiff_t>(node_count_), nodes.end(),
                   [](const auto& node) { return is_pure(*node); }))
    return false;
  recorder_->forget_data_read();
  return true;
}

std::vector<at::Tensor> BackwardTry::call(const Backward& backward, const std::vector<at::Tensor>& saved) {
  Gradients given;
  for (const at::Tensor& gradient : gradients_)
    given.push_back(gradient.defined() ? std::optional<at::Tensor>(gradient) : std::nullopt);
  std::vector<at::Tensor> traced;
  for (const at::Tensor& tensor : saved)
    traced.push_back(as_fake_inside(tensor) ? tensor : recorder_->stand_in(tensor, InputRole::Captured));
  return opaque_backward_op()
      .typed<std::vector<at::Tensor>(const Backward&, const Gradients&, const std::vector<at::Tensor>&)>()
      .call(backward, given, traced);
}

void note_missing_gradients(const Graph& graph) {
  std::unordered_set<const Value*> used;
  std::vector<const Node*> calls;
  for (const auto& node : graph.nodes) {
    if (node->op.is_aten() && *node->op.aten == opaque_backward_op()) calls.push_back(node.get());
  }
  if (calls.empty()) return;
  for (const auto& node : graph.nodes) {
    std::as_const(*node).each_input([&](const Value* value) { used.insert(value); });
  }
  for (const Node* node : calls) {
    const Backward backward = node->args[0].constant.toCustomClass<OpaqueBackward>();
    for (size_t i = 0; i < node->outputs.size(); ++i) backward->may_miss[i] = used.count(node->outputs[i].get()) == 0;
  }
}

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.class_<OpaqueBackward>("OpaqueBackward");
  library.def(
      "opaque_backward(__torch__.torch.classes.firesteel.OpaqueBackward backward, Tensor?[] gradients, Tensor[] saved) "
      "-> Tensor[]");
  library.impl("opaque_backward", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(run));
  library.impl("opaque_backward", c10::DispatchKey::Meta, TORCH_FN(shapes));
}

}  // namespace firesteel
