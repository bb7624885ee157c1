// Runs a function eagerly and compiled on the same values, several times with fresh ones, and compares everything.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <firesteel/firesteel.h>
#include <gtest/gtest.h>

#include <unordered_map>

namespace like_eager {

inline void seed(uint64_t value) {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  generator.set_current_seed(value);
}

inline bool same(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.strides() != b.strides()) return false;
  if (a.requires_grad() != b.requires_grad()) return false;
  if (!a.is_floating_point() && !a.is_complex()) return at::equal(a, b);
  const double tolerance = at::toRealValueType(a.scalar_type()) == at::kDouble ? 1e-9
                           : a.element_size() < 4                              ? 2e-2
                                                                               : 1e-5;
  return at::allclose(a.detach(), b.detach(), tolerance, tolerance, /*equal_nan=*/true);
}

inline void expect_same(const std::vector<at::Tensor>& eager, const std::vector<at::Tensor>& compiled,
                        const char* what) {
  ASSERT_EQ(eager.size(), compiled.size()) << what;
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(same(eager[i], compiled[i])) << what << " " << i << "\neager:\n"
                                             << eager[i] << "\ncompiled:\n"
                                             << compiled[i];
  }
}

// A deep copy of nested values: what is one tensor here is one tensor there, and leaves that require grad still do.
template <class T>
T copy(const T& values) {
  firesteel::FlatValues flat = firesteel::detail::lay_flat(values);
  std::unordered_map<const c10::TensorImpl*, at::Tensor> copies;
  for (at::Tensor& tensor : flat.tensors) {
    at::Tensor& made = copies[tensor.unsafeGetTensorImpl()];
    if (!made.defined()) made = tensor.detach().clone().requires_grad_(tensor.requires_grad());
    tensor = made;
  }
  return firesteel::detail::rebuild<T>(flat.tensors, flat.structure);
}

template <class T>
std::vector<at::Tensor> tensors_of(const T& values) {
  return firesteel::detail::lay_flat(values).tensors;
}

// Gradients of all leaves, after a backward from all results that have one, with fixed weights.
inline std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& results,
                                         const std::vector<at::Tensor>& leaves) {
  at::Tensor loss;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || !results[i].requires_grad()) continue;
    const at::Tensor real = results[i].is_complex() ? at::view_as_real(results[i]) : results[i];
    const at::Tensor weight =
        at::linspace(0.5, 1.5, real.numel(), at::kDouble).view(real.sizes()).to(real.scalar_type());
    const at::Tensor part = (real * weight).sum() * static_cast<double>(i + 1);
    loss = loss.defined() ? loss + part : part;
  }
  if (loss.defined()) loss.backward();
  std::vector<at::Tensor> found;
  for (const at::Tensor& leaf : leaves) {
    found.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::Tensor());
    leaf.mutable_grad().reset();
  }
  return found;
}

// `make()` gives a tuple of fresh arguments each time. `held`: leaves that the function captures.
template <class F, class Make>
void check(F function, Make make, std::vector<at::Tensor> held = {}, size_t graphs = 1) {
  auto compiled = firesteel::compile(function);
  for (uint64_t round = 0; round < 3; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    seed(100 + round);
    auto for_eager = make();
    auto for_compiled = copy(for_eager);

    seed(7 + round);
    const std::vector<at::Tensor> eager = tensors_of(std::apply(function, for_eager));
    const at::Tensor after_eager = at::rand({2});
    seed(7 + round);
    const std::vector<at::Tensor> ours = tensors_of(std::apply(compiled, for_compiled));
    const at::Tensor after_ours = at::rand({2});

    expect_same(eager, ours, "result");
    expect_same({after_eager}, {after_ours}, "next random numbers");
    std::vector<at::Tensor> eager_leaves = tensors_of(for_eager), our_leaves = tensors_of(for_compiled);
    expect_same(eager_leaves, our_leaves, "argument after the call");
    auto only_leaves = [&](std::vector<at::Tensor> tensors) {
      std::erase_if(tensors, [](const at::Tensor& t) { return !t.is_leaf() || !t.requires_grad(); });
      tensors.insert(tensors.end(), held.begin(), held.end());
      return tensors;
    };
    expect_same(gradients(eager, only_leaves(eager_leaves)), gradients(ours, only_leaves(our_leaves)), "gradient");
  }
  EXPECT_EQ(compiled.graph_count(), graphs);
}

inline at::Tensor grad(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

}  // namespace like_eager
