// firesteel::compile: nesting, signatures, the recompile limit, threads, and errors.
#include "like_eager.h"

#include <thread>

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

namespace {

using at::Tensor;
using like_eager::check;
using like_eager::grad;

struct Batch {
  Tensor images;
  std::vector<Tensor> labels;
  double weight = 1;
};

Tensor scale(const Tensor& x, int64_t by) { return x * by; }

// Counts how often the function itself runs: once a trace, and once a call past the limit.
struct Counted {
  std::shared_ptr<int> runs = std::make_shared<int>(0);
  Tensor operator()(const Tensor& x, int64_t n) const {
    ++*runs;
    return x * n + x.size(0);
  }
};

struct CollectWarnings : c10::WarningHandler {
  std::vector<std::string> texts;
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
};

}  // namespace

template <>
struct firesteel::Fields<Batch> {
  static constexpr auto name = "Batch";
  static auto of(auto& batch) { return std::tie(batch.images, batch.labels, batch.weight); }
};

namespace {

TEST(Compile, FunctionPointersLambdasAndGenericCallables) {
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::equal(firesteel::compile(scale)(x, 3), x * 3));
  EXPECT_TRUE(at::equal(firesteel::compile([](Tensor t) { return t.sin(); })(x), x.sin()));
  std::function<Tensor(Tensor)> erased = [](Tensor t) { return t.cos(); };
  EXPECT_TRUE(at::equal(firesteel::compile(erased)(x), x.cos()));

  auto generic = firesteel::compile([](const auto& a, const auto& b) { return a * b; });
  EXPECT_TRUE(at::equal(generic(x, x), x * x));
  EXPECT_TRUE(at::equal(generic(x, 2.5), x * 2.5));
  EXPECT_TRUE(at::equal(generic(x, 2), x * 2));
  EXPECT_EQ(generic.graph_count(), 3u);
}

TEST(Compile, NestedContainers) {
  using Dict = std::map<std::string, std::vector<Tensor>>;
  check(
      [](const Dict& parts, std::optional<Tensor> bias, std::pair<Tensor, double> scaled) {
        std::unordered_map<std::string, std::tuple<Tensor, int64_t>> result;
        for (const auto& [name, tensors] : parts) {
          Tensor sum = scaled.first * scaled.second;
          for (const Tensor& tensor : tensors) sum = sum + tensor.tanh();
          result.emplace(name, std::make_tuple(bias ? sum + *bias : sum, static_cast<int64_t>(tensors.size())));
        }
        return std::make_pair(result, std::array<std::optional<Tensor>, 2>{std::nullopt, scaled.first.exp()});
      },
      [] {
        return std::make_tuple(Dict{{"a", {grad({2, 3}), grad({3})}}, {"b", {}}},
                               std::optional<Tensor>(at::randn({1, 3})), std::make_pair(grad({2, 3}), 0.5));
      });
}

TEST(Compile, ConstantsInResultsComeBack) {
  auto compiled = firesteel::compile([](const std::string& mode, Tensor x, bool flip) {
    return std::make_tuple(mode + "!", flip, 2.5, std::vector<int64_t>{x.size(0), 7}, flip ? -x : x + 0);
  });
  for (int round = 0; round < 3; ++round) {
    Tensor x = at::randn({4});
    auto [mode, flip, half, sizes, y] = compiled("loud", x, true);
    EXPECT_EQ(mode, "loud!");
    EXPECT_TRUE(flip);
    EXPECT_EQ(half, 2.5);
    EXPECT_EQ(sizes, (std::vector<int64_t>{4, 7}));
    EXPECT_TRUE(at::equal(y, -x));
  }
  EXPECT_EQ(compiled.graph_count(), 1u);
  compiled("loud", at::randn({4}), false);
  compiled("soft", at::randn({4}), false);
  EXPECT_EQ(compiled.graph_count(), 3u);
}

TEST(Compile, StructsByTheirFields) {
  auto work = [](const Batch& batch) {
    Batch result{batch.images * batch.weight, batch.labels, batch.weight * 2};
    result.labels.push_back(batch.images.sum());
    return result;
  };
  check(work, [] { return std::make_tuple(Batch{grad({2, 2}), {at::randn({2})}, 3.0}); });
  auto compiled = firesteel::compile(work);
  const Batch batch{at::ones({2}), {}, 2.0};
  EXPECT_EQ(compiled(batch).weight, 4.0);
  EXPECT_NE(compiled.graphs().at(0).str().find("Batch("), std::string::npos) << compiled.graphs()[0].str();
}

TEST(Compile, UndefinedTensorsAndNoResult) {
  auto maybe = firesteel::compile(
      [](Tensor x, Tensor bias) { return std::make_pair(bias.defined() ? x + bias : x.clone(), bias); });
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::equal(maybe(x, Tensor()).first, x));
  EXPECT_FALSE(maybe(x, Tensor()).second.defined());
  EXPECT_TRUE(at::equal(maybe(x, x).first, x + x));

  auto writes = firesteel::compile([](Tensor t) { t.add_(1); });
  Tensor counter = at::zeros({2});
  writes(counter);
  writes(counter);
  EXPECT_TRUE(at::equal(counter, at::full({2}, 2)));
}

TEST(Compile, OneGraphForEachSignature) {
  Counted counted;
  auto compiled = firesteel::compile(counted);
  auto expect_graphs = [&](const Tensor& x, int64_t n, size_t graphs) {
    EXPECT_TRUE(at::equal(compiled(x, n), x * n + x.size(0)));
    EXPECT_TRUE(at::equal(compiled(x + 1, n), (x + 1) * n + x.size(0)));
    EXPECT_EQ(compiled.graph_count(), graphs);
    EXPECT_EQ(*counted.runs, static_cast<int>(graphs));
  };
  Tensor x = at::randn({4, 3});
  expect_graphs(x, 2, 1);
  expect_graphs(x, 3, 2);
  expect_graphs(at::randn({5, 3}), 2, 3);
  expect_graphs(x.to(at::kDouble), 2, 4);
  {
    at::NoGradGuard no_grad;
    expect_graphs(x, 2, 5);
  }
  expect_graphs(at::randn({3, 4}).t().detach() + at::zeros({3, 4}).t(), 2, 6);
}

TEST(Compile, RequiresGradIsPartOfTheSignature) {
  auto compiled = firesteel::compile([](Tensor x) { return x * x; });
  Tensor x = at::randn({3});
  EXPECT_FALSE(compiled(x).requires_grad());
  Tensor leaf = x.clone().requires_grad_();
  Tensor y = compiled(leaf);
  ASSERT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_TRUE(at::allclose(leaf.grad(), 2 * x));
  EXPECT_EQ(compiled.graph_count(), 2u);
}

TEST(Compile, PastTheLimitItWarnsOnceAndRunsTheFunction) {
  Counted counted;
  auto compiled = firesteel::compile(counted, {.name = "counted"});
  CollectWarnings warnings;
  c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  for (int64_t n = 1; n <= 12; ++n) {
    Tensor x = at::randn({n, 2});
    EXPECT_TRUE(at::equal(compiled(x, 2), x * 2 + n));
  }
  EXPECT_EQ(compiled.graph_count(), 8u);
  EXPECT_EQ(*counted.runs, 12);
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_NE(warnings.texts[0].find("input 0 has another shape than in the trace (8 times)"), std::string::npos)
      << warnings.texts[0];
  EXPECT_NE(warnings.texts[0].find("compile_test.cpp"), std::string::npos);
  EXPECT_NE(warnings.texts[0].find("`counted`"), std::string::npos);
  compiled(at::randn({3, 2}), 2);  // has a graph still
  EXPECT_EQ(*counted.runs, 12);
}

TEST(Compile, StateOptionSelectsTheGraph) {
  auto training = std::make_shared<bool>(true);
  auto work = [training](Tensor x) { return *training ? x * 2 : x * 3; };
  auto compiled = firesteel::compile(work, {.state = [training] { return std::string(*training ? "train" : "eval"); }});
  Tensor x = at::randn({3});
  for (bool mode : {true, false, true, false}) {
    *training = mode;
    EXPECT_TRUE(at::equal(compiled(x), work(x)));
  }
  EXPECT_EQ(compiled.graph_count(), 2u);
}

TEST(Compile, CopiesShareTheirGraphs) {
  auto compiled = firesteel::compile([](Tensor x) { return x + 1; });
  auto copy = compiled;
  compiled(at::randn({2}));
  EXPECT_EQ(copy.graph_count(), 1u);
}

TEST(Compile, InsideAnotherCompiledFunction) {
  auto inner = firesteel::compile([](Tensor x) { return x.relu(); });
  auto outer = [inner](Tensor x) { return inner(x * 2).sum(0) + inner(x).sum(0); };
  auto compiled = firesteel::compile(outer);
  compiled(grad({3, 4}));
  EXPECT_EQ(inner.graph_count(), 0u) << "inside a trace the inner function is traced as part of the outer one";
  check(outer, [] { return std::make_tuple(grad({3, 4})); });
}

TEST(Compile, ChangedContainersAreRefused) {
  auto push = firesteel::compile([](std::vector<Tensor>& list) {
    list.push_back(list[0] + 1);
    return list[0] * 2;
  });
  std::vector<Tensor> list{at::ones({2})};
  EXPECT_THROW(push(list), firesteel::MutationError);
  EXPECT_EQ(list.size(), 1u);
  auto rebind = firesteel::compile([](Tensor& x) { x = x * 2; });
  Tensor x = at::ones({2});
  EXPECT_THROW(rebind(x), firesteel::MutationError);
  EXPECT_TRUE(at::equal(x, at::ones({2})));
}

TEST(Compile, ReadingDataRaises) {
  auto item = firesteel::compile([](Tensor x) { return x * x.sum().item<double>(); });
  auto branch = firesteel::compile([](Tensor x) { return x.sum().is_nonzero() ? x + 1 : x - 1; });
  auto swallowed = firesteel::compile([](Tensor x) {
    try {
      return x * x.sum().item<double>();
    } catch (const std::exception&) {
      return x * 2;
    }
  });
  auto sized = firesteel::compile([](Tensor x) { return x.nonzero(); });
  Tensor x = at::ones({2});
  EXPECT_THROW(item(x), firesteel::DataDependentError);
  EXPECT_THROW(branch(x), firesteel::DataDependentError);
  EXPECT_THROW(swallowed(x), firesteel::DataDependentError);
  EXPECT_THROW(sized(x), firesteel::DataDependentError);
  EXPECT_THROW(item(x), firesteel::TraceError) << "and again, without harm";
}

TEST(Compile, EscapedTensorsSaySo) {
  auto stash = std::make_shared<Tensor>();
  auto compiled = firesteel::compile([stash](Tensor x) {
    *stash = x * 2;
    return x + 1;
  });
  Tensor x = at::ones({2});
  EXPECT_TRUE(at::equal(compiled(x), x + 1));
  EXPECT_THROW(*stash + 1, firesteel::EscapedTensorError);
  EXPECT_THROW(stash->sum().item(), firesteel::EscapedTensorError);
  EXPECT_THROW(compiled(*stash), firesteel::EscapedTensorError);
  EXPECT_TRUE(at::equal(compiled(x * 3), x * 3 + 1));
}

TEST(Compile, ExceptionsPassThroughAndLeaveItUsable) {
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  auto fail = std::make_shared<bool>(true);
  auto compiled = firesteel::compile([fail](Tensor x) {
    Tensor y = x * 2;
    y.add_(1);
    if (*fail) throw Mine("mine");
    return y;
  });
  Tensor x = at::randn({3}).requires_grad_();
  EXPECT_THROW(compiled(x), Mine);
  EXPECT_THROW(compiled(x), Mine);
  EXPECT_EQ(compiled.graph_count(), 0u);
  EXPECT_TRUE((x * 2).requires_grad()) << "eager torch is as before";
  *fail = false;
  EXPECT_TRUE(at::allclose(compiled(x), x * 2 + 1));
  EXPECT_THROW(firesteel::compile([](Tensor t) { return at::mm(t, t); })(at::randn({2, 3})), c10::Error);
}

TEST(Compile, EightThreads) {
  Tensor weight = at::randn({4, 4}).requires_grad_();
  auto work = [weight](Tensor x, int64_t n) { return (x.mm(weight).tanh() * n).sum(1); };
  auto compiled = firesteel::compile(work);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        Tensor x = at::randn({2 + (t + i) % 3, 4}).requires_grad_(), y = x.detach().clone().requires_grad_();
        Tensor ours = compiled(x, 1 + i % 2), eager = work(y, 1 + i % 2);
        Tensor our_grad = torch::autograd::grad({ours.sum()}, {x})[0],
               eager_grad = torch::autograd::grad({eager.sum()}, {y})[0];
        auto near = [](const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-5, 1e-6); };
        if (!near(ours, eager) || !near(our_grad, eager_grad)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiled.graph_count(), 6u);
}

}  // namespace
