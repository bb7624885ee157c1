// Trains two small nets twice, eagerly and with firesteel::compile, and checks that the losses agree step by step.
#include <cmath>
#include <cstdio>
#include <functional>

#include <firesteel/firesteel.h>
#include <torch/torch.h>

namespace {

using torch::Tensor;
using torch::nn::Sequential;

constexpr int kSteps = 20;
constexpr double kTolerance = 1e-4;

Sequential make_mlp() {
  return Sequential(torch::nn::Linear(16, 64), torch::nn::GELU(),
                    torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})), torch::nn::Linear(64, 10));
}

Sequential make_convolutional_net() {
  return Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)),
                    torch::nn::BatchNorm2d(8), torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Dropout(0.2),
                    torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).padding(1)), torch::nn::ReLU(),
                    torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(16, 10));
}

using Loss = std::function<Tensor(Tensor inputs, Tensor labels)>;

// Captures the net: its parameters and buffers become inputs of the graph by themselves.
auto loss_of(Sequential net) {
  return [net](Tensor inputs, Tensor labels) mutable {
    return torch::nn::functional::cross_entropy(net->forward(inputs), labels);
  };
}

std::vector<double> train(Sequential net, const Loss& loss_of_batch, torch::IntArrayRef sizes) {
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  torch::manual_seed(1);  // the same batches, and the same dropout, in both runs
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const Tensor inputs = torch::randn(sizes);
    const Tensor labels = torch::randint(10, {sizes[0]}, torch::kLong);
    optimizer.zero_grad();
    const Tensor loss = loss_of_batch(inputs, labels);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

bool compare(const char* title, Sequential (*make)(), torch::IntArrayRef sizes) {
  torch::manual_seed(0);
  Sequential eager_net = make();
  torch::manual_seed(0);
  Sequential compiled_net = make();

  auto compiled = firesteel::compile(loss_of(compiled_net), {.name = title});
  const std::vector<double> eager = train(eager_net, loss_of(eager_net), sizes);
  const std::vector<double> ours = train(compiled_net, compiled, sizes);

  const firesteel::TracedGraph graph = compiled.graphs().at(0);
  std::printf("\n%s\n  %s\n\n%s\n\n  step      eager   compiled\n", title, graph.times().str().c_str(),
              graph.str().c_str());
  bool equal = compiled.graph_count() == 1 && graph.has_backward();
  for (int step = 0; step < kSteps; ++step) {
    const bool close = std::abs(eager[step] - ours[step]) <= kTolerance * std::max(1.0, std::abs(eager[step]));
    std::printf("  %4d %10.6f %10.6f%s\n", step, eager[step], ours[step], close ? "" : "  differs");
    equal = equal && close;
  }
  for (const auto& buffer : eager_net->named_buffers()) {
    const bool close = torch::allclose(buffer.value(), compiled_net->named_buffers()[buffer.key()], 1e-3, 1e-4);
    if (!close) std::printf("  buffer %s differs\n", buffer.key().c_str());
    equal = equal && close;
  }
  return equal;
}

}  // namespace

int main() {
  const bool mlp = compare("mlp", make_mlp, {32, 16});
  const bool convolutional = compare("convolutional_net", make_convolutional_net, {8, 3, 16, 16});
  const bool equal = mlp && convolutional;
  std::printf("\n%s\n", equal ? "eager and compiled agree" : "eager and compiled differ");
  return equal ? 0 : 1;
}
