// Draws into tensors of any layout. `bernoulli_` and `normal_` draw in the order of memory, but the functional forms
// that torch has for them draw into a tensor laid out anew: other values come to lie at each index. These keep the
// layout.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/normal.h>
#include <torch/library.h>

#include "aot/entry_kernel.h"
#include "aot/recorder.h"
#include "aot/shapes.h"

namespace firesteel {
namespace {

using torch::jit::Stack;

at::Tensor laid_out_as(const at::Tensor& like) {
  return at::empty_strided(like.sizes(), like.strides(), like.options());
}

at::Tensor bernoulli(const at::Tensor& like, double p, std::optional<at::Generator> generator) {
  return laid_out_as(like).bernoulli_(p, std::move(generator));
}

// The probability is a number that changes from call to call.
at::Tensor bernoulli_number(const at::Tensor& like, const at::Tensor& p, std::optional<at::Generator> generator) {
  return laid_out_as(like).bernoulli_(p.item<double>(), std::move(generator));
}

at::Tensor normal(const at::Tensor& like, double mean, double std, std::optional<at::Generator> generator) {
  return laid_out_as(like).normal_(mean, std, std::move(generator));
}

// `self.draw_(…)` as `self.copy_(draw(self, …))`. A dense tensor in the usual order needs none of this.
template <const char* const* functional_name>
void draw_in_place(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  at::Tensor self = (*stack)[base].toTensor();
  Recorder* recorder = Recorder::current();
  if (!recorder || !recorder->active() || is_inferring_shapes() || self.is_meta() || self.is_contiguous()) {
    return entry_kernel(op, keys, stack);
  }
  static const c10::OperatorHandle draw = c10::Dispatcher::singleton().findSchemaOrThrow(*functional_name, "");
  {
    at::NoGradGuard no_grad;  // a draw has no gradient, and copy_ gives `self` none
    draw.callBoxed(stack);
  }
  self.copy_(stack->back().toTensor());
  stack->back() = std::move(self);
}

constexpr const char* kBernoulli = "firesteel::bernoulli";
constexpr const char* kNormal = "firesteel::normal";

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  const std::vector<at::Tag> tags = {at::Tag::nondeterministic_seeded};
  library.def("bernoulli(Tensor like, float p, Generator? generator=None) -> Tensor", tags);
  library.def("normal(Tensor like, float mean, float std, Generator? generator=None) -> Tensor", tags);
  library.impl("bernoulli", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(bernoulli));
  library.def("bernoulli.number(Tensor like, Tensor p, Generator? generator=None) -> Tensor", tags);
  library.impl("bernoulli.number", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(bernoulli_number));
  library.impl("normal", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(normal));
}

TORCH_LIBRARY_IMPL(aten, DeferredInit, library) {
  library.impl("bernoulli_.float", torch::CppFunction::makeFromBoxedFunction<&draw_in_place<&kBernoulli>>());
  library.impl("normal_", torch::CppFunction::makeFromBoxedFunction<&draw_in_place<&kNormal>>());
}

}  // namespace firesteel
