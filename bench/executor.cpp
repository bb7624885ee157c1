// The executor's overhead: a 50-layer MLP of 32 by 32, forward, against the sum of its kernels called directly.
//
// The kernels are called at the CPU's own dispatch key, with their arguments at hand: no autograd, no dispatch on
// arguments, no boxing. The two alternate; the minimum of each counts. One thread.
#include <chrono>
#include <cstdio>

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/t.h>

#include "compiler.h"

namespace {

constexpr int kLayers = 50, kWidth = 32, kRounds = 2000;

template <class F>
double microseconds(F&& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
  at::set_num_threads(1);
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> weights, biases;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(at::randn({kWidth, kWidth}).div_(6.0));
    biases.push_back(at::randn({kWidth}));
  }
  const at::Tensor x = at::randn({kWidth, kWidth});

  auto network = [&](const std::vector<at::Tensor>& inputs) {
    at::Tensor h = inputs[0];
    for (int i = 0; i < kLayers; ++i) h = at::relu(at::addmm(biases[i], h, at::t(weights[i])));
    return firesteel::FunctionResult{{h}, firesteel::Tree::leaf()};
  };
  firesteel::Executable graph = firesteel::compile_function(network, {x}, {});

  std::vector<at::Tensor> transposed;
  for (const at::Tensor& weight : weights) transposed.push_back(weight.t());
  at::Tensor direct;
  auto kernels = [&] {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor h = x;
    for (int i = 0; i < kLayers; ++i) h = at::native::relu(at::cpu::addmm(biases[i], h, transposed[i]));
    direct = h;
  };
  at::Tensor replayed;
  auto executor = [&] { replayed = graph({x})[0]; };

  double kernel_time = 1e30, executor_time = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    kernel_time = std::min(kernel_time, microseconds(kernels));
    executor_time = std::min(executor_time, microseconds(executor));
  }
  if (!at::equal(direct, replayed)) {
    std::printf("the two disagree\n");
    return 1;
  }
  const size_t nodes = graph.forward().nodes.size();
  std::printf("%d layers, %zu nodes: kernels %.1f us, executor %.1f us, overhead %.3f us a node\n", kLayers, nodes,
              kernel_time, executor_time, (executor_time - kernel_time) / static_cast<double>(nodes));
  return 0;
}
