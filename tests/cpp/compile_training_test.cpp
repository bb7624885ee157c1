// Modules captured by compiled functions: gradients of parameters, batch norm statistics, dropout, whole training runs.
#include "like_eager.h"

#include <torch/torch.h>

namespace {

using torch::Tensor;

// No bias before the batch norm: its gradient would be rounding errors alone, which Adam makes large.
torch::nn::Sequential convolutional_net() {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)),
                               torch::nn::BatchNorm2d(8), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                               torch::nn::Dropout(0.3), torch::nn::Flatten(), torch::nn::Linear(8 * 4 * 4, 5));
}

// A copy with parameters and buffers of its own.
torch::nn::Sequential twin(const torch::nn::Sequential& net, const std::function<torch::nn::Sequential()>& make) {
  torch::nn::Sequential other = make();
  torch::NoGradGuard no_grad;
  auto from = net->named_parameters();
  for (auto& item : other->named_parameters()) item.value().copy_(from[item.key()]);
  auto buffers = net->named_buffers();
  for (auto& item : other->named_buffers()) item.value().copy_(buffers[item.key()]);
  return other;
}

std::vector<Tensor> values(const torch::nn::Sequential& net) {
  std::vector<Tensor> all = net->parameters();
  for (const Tensor& buffer : net->buffers()) all.push_back(buffer);
  return all;
}

TEST(CompileTraining, ParametersBuffersAndDropoutAsInEager) {
  torch::manual_seed(3);
  torch::nn::Sequential eager = convolutional_net(), ours = twin(eager, convolutional_net);
  auto loss_of = [](torch::nn::Sequential net) {
    return [net](Tensor images, Tensor labels) mutable {
      return torch::nn::functional::cross_entropy(net->forward(images), labels);
    };
  };
  auto eager_loss = loss_of(eager);
  auto compiled = firesteel::compile(loss_of(ours));
  torch::optim::Adam eager_steps(eager->parameters(), 1e-2), our_steps(ours->parameters(), 1e-2);
  for (uint64_t step = 0; step < 5; ++step) {
    Tensor images = torch::randn({4, 3, 8, 8}), labels = torch::randint(5, {4}, torch::kLong);
    auto run = [&](auto& loss_function, torch::optim::Adam& steps) {
      torch::manual_seed(step);
      steps.zero_grad();
      Tensor loss = loss_function(images, labels);
      loss.backward();
      steps.step();
      return std::make_pair(loss.item<double>(), torch::rand({1}));
    };
    auto [a, next_a] = run(eager_loss, eager_steps);
    auto [b, next_b] = run(compiled, our_steps);
    EXPECT_NEAR(a, b, 1e-4);
    EXPECT_TRUE(torch::equal(next_a, next_b)) << "the generator moved by another amount";
    like_eager::expect_same(values(eager), values(ours), "parameter or buffer");
  }
  EXPECT_EQ(compiled.graph_count(), 1u);
  EXPECT_EQ(eager->named_buffers()["1.num_batches_tracked"].item<int64_t>(), 5);
}

TEST(CompileTraining, EvaluationThroughTheStateOption) {
  torch::nn::Sequential net = convolutional_net();
  auto forward = [net](Tensor x) mutable { return net->forward(x); };
  auto compiled =
      firesteel::compile(forward, {.state = [net] { return std::string(net->is_training() ? "train" : "eval"); }});
  for (bool training : {false, true, false, true, false}) {
    net->train(training);
    Tensor x = torch::randn({2, 3, 8, 8});
    if (training) {
      compiled(x);
      continue;
    }
    EXPECT_TRUE(torch::allclose(compiled(x), forward(x), 1e-5, 1e-5));
  }
  EXPECT_EQ(compiled.graph_count(), 2u);
}

TEST(CompileTraining, Recurrent) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 5).num_layers(2));
  torch::nn::Embedding table(10, 4);
  std::vector<Tensor> held = lstm->parameters();
  held.push_back(table->weight);
  like_eager::check(
      [lstm, table](Tensor words) mutable {
        auto [output, state] = lstm->forward(table->forward(words));
        return std::make_pair(output, std::get<0>(state));
      },
      [] {
        return std::make_tuple(torch::randint(10, {6, 2}, torch::kLong));
      },
      held);
}

TEST(CompileTraining, Attention) {
  torch::nn::Linear in(8, 24), out(8, 8);
  std::vector<Tensor> held = in->parameters();
  for (const Tensor& parameter : out->parameters()) held.push_back(parameter);
  like_eager::check(
      [in, out](Tensor x) mutable {
        auto heads = [](const Tensor& t) { return t.view({2, 5, 2, 4}).transpose(1, 2); };
        std::vector<Tensor> parts = in->forward(torch::layer_norm(x, {8})).chunk(3, -1);
        Tensor attended = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
        return x + out->forward(attended.transpose(1, 2).reshape({2, 5, 8}));
      },
      [] {
        return std::make_tuple(like_eager::grad({2, 5, 8}));
      },
      held);
}

TEST(CompileTraining, SeedingInside) {
  like_eager::check(
      [](Tensor x) {
        torch::manual_seed(3);
        return x * torch::rand_like(x);
      },
      [] { return std::make_tuple(like_eager::grad({4})); });
}

TEST(CompileTraining, DropoutStream) {
  like_eager::check(
      [](Tensor x) {
        Tensor y = torch::dropout(x, 0.5, true) + torch::randn({3, 4});
        return torch::dropout(y, 0.2, true) * torch::rand_like(y);
      },
      [] {
        return std::make_tuple(like_eager::grad({3, 4}));
      });
}

// The second run of the block is recorded again and draws the same numbers, as activation checkpointing does it.
TEST(CompileTraining, RecomputedBlock) {
  like_eager::check(
      [](Tensor x) {
        auto generator = at::detail::getDefaultCPUGenerator();
        auto block = [](const Tensor& t) { return torch::dropout(t.tanh(), 0.5, true); };
        const Tensor before = generator.get_state();
        const Tensor first = block(x);
        const Tensor after = generator.get_state();
        generator.set_state(before);
        const Tensor again = block(x);
        generator.set_state(after);
        return std::make_pair(first, again);
      },
      [] { return std::make_tuple(like_eager::grad({16})); });
}

TEST(CompileTraining, BackwardTwiceNeedsRetainGraph) {
  auto compiled = firesteel::compile([](Tensor x) { return (x * x).sum(); });
  Tensor x = like_eager::grad({3});
  Tensor y = compiled(x);
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_TRUE(torch::allclose(x.grad(), 4 * x));
  EXPECT_THROW(y.backward(), std::exception);
}

// Its backward is written by hand, and wrong on purpose by a factor that eager shows too.
struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, double factor) {
    context->save_for_backward({x});
    context->saved_data["factor"] = factor;
    return x * factor;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const double factor = context->saved_data["factor"].toDouble();
    return {gradients[0] * factor * 10 + context->get_saved_variables()[0], Tensor()};
  }
};

TEST(CompileTraining, AutogradFunction) {
  like_eager::check([](Tensor x) { return Doubled::apply(x.sin(), 2.0) * x; },
                    [] { return std::make_tuple(like_eager::grad({4})); });
}

TEST(CompileTraining, HooksOnIntermediateValues) {
  like_eager::check(
      [](Tensor x) {
        Tensor y = x * 3;
        y.register_hook([](Tensor gradient) { return gradient * 7; });
        return y.exp();
      },
      [] { return std::make_tuple(like_eager::grad({4})); });
}

}  // namespace
