// The controls for C++ callers: nonstrict, disable, graph_break and is_compiling, inside compiled functions and out.
#include "like_eager.h"

#include <thread>

#include <torch/csrc/autograd/custom_function.h>

namespace {

using at::Tensor;
using like_eager::check;
using like_eager::grad;

Tensor halve(const Tensor& x) { return x.sin() / 2; }

struct Scaler {
  double by = 3;
  Tensor scale(const Tensor& x) const { return x * by; }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The lines of a graph's text that say where they come from.
size_t lines_from(const std::string& text, const std::string& function) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(" " + function + "\n", at)) != std::string::npos; ++at) ++count;
  return count;
}

template <class F>
std::string break_error(F&& call) {
  try {
    call();
  } catch (const firesteel::GraphBreakError& error) {
    return error.what();
  }
  return "no GraphBreakError";
}

// --- is_compiling

TEST(Controls, IsCompilingOnlyWhileTraced) {
  std::vector<bool> seen;
  auto compiled = firesteel::compile([&seen](const Tensor& x) {
    seen.push_back(firesteel::is_compiling());
    return x + 1;
  });
  EXPECT_FALSE(firesteel::is_compiling());
  compiled(at::ones({2}));
  compiled(at::ones({2}));  // a replay does not run the function
  EXPECT_EQ(seen, std::vector<bool>{true});
  EXPECT_FALSE(firesteel::is_compiling());
}

TEST(Controls, IsCompilingIsAFactOfOneThread) {
  bool elsewhere = true;
  firesteel::compile([&elsewhere](const Tensor& x) {
    std::thread([&elsewhere] { elsewhere = firesteel::is_compiling(); }).join();
    return x + 1;
  })(at::ones({2}));
  EXPECT_FALSE(elsewhere);
}

TEST(Controls, IsCompilingIsFalseAfterAFunctionThrew) {
  auto compiled = firesteel::compile([](const Tensor& x) -> Tensor {
    if (x.dim() == 1) throw std::runtime_error("mine");
    return x;
  });
  EXPECT_THROW(compiled(at::ones({2})), std::runtime_error);
  EXPECT_FALSE(firesteel::is_compiling());
}

// --- nonstrict

TEST(Controls, NonstrictJustCallsOutsideATrace) {
  auto half = firesteel::nonstrict(halve, "half");
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::equal(half(x), halve(x)));
  EXPECT_FALSE(firesteel::is_compiling());
}

TEST(Controls, NonstrictNamesItsOperatorsInTheGraph) {
  const auto half = firesteel::nonstrict(halve, "half");
  auto graph = firesteel::trace([&](const Tensor& x) { return half(x.exp()).cos(); }, grad({3}));
  const std::string text = graph.str();
  EXPECT_TRUE(contains(text, "controls_test.cpp")) << text;
  EXPECT_GE(lines_from(text, "half"), 4u) << text;  // sin and div, and their gradients
  for (const char* line : {"aten.exp", "aten.cos"}) {
    const size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_FALSE(contains(text.substr(at, text.find('\n', at) - at), "half")) << text;
  }
}

TEST(Controls, NonstrictNamesNestAndEnd) {
  auto inner = firesteel::nonstrict([](const Tensor& x) { return x.tan(); }, "inner");
  auto outer = firesteel::nonstrict([inner](const Tensor& x) { return inner(x.sin()).cos(); }, "outer");
  const std::string text = firesteel::trace([&](const Tensor& x) { return outer(x).exp(); }, at::ones({2})).str();
  EXPECT_EQ(lines_from(text, "inner"), 1u) << text;
  EXPECT_EQ(lines_from(text, "outer"), 2u) << text;
}

TEST(Controls, NonstrictNameEndsWithAnException) {
  auto failing = firesteel::nonstrict([](const Tensor&) -> Tensor { throw std::runtime_error("mine"); }, "failing");
  auto graph = firesteel::trace(
      [&](const Tensor& x) {
        try {
          return failing(x);
        } catch (const std::runtime_error&) {
          return x.sin();
        }
      },
      at::ones({2}));
  EXPECT_EQ(lines_from(graph.str(), "failing"), 0u) << graph.str();
}

TEST(Controls, NonstrictTrainsLikeEager) {
  Tensor weight = grad({3, 3});
  auto layer = firesteel::nonstrict(
      [weight](const Tensor& x, const std::vector<Tensor>& extra, double by) {
        Tensor y = at::mm(x, weight).tanh() * by;
        for (const Tensor& one : extra) y = y + one;
        y.mul_(2);
        return std::make_pair(y, y.t());
      },
      "layer");
  check([layer](const Tensor& x, const std::vector<Tensor>& extra) { return layer(x.sin(), extra, 0.5); },
        [] {
          return std::make_tuple(grad({2, 3}), std::vector<Tensor>{grad({3}), at::randn({2, 1})});
        },
        {weight});
}

TEST(Controls, NonstrictOfMembersMutableLambdasAndCompiledFunctions) {
  Tensor x = at::randn({3});
  auto member = firesteel::nonstrict(&Scaler::scale, "scale");
  EXPECT_TRUE(at::equal(firesteel::compile([member](const Tensor& t) { return member(Scaler{}, t); })(x), x * 3));

  auto counting = firesteel::nonstrict([calls = 0](const Tensor& t) mutable { return t + ++calls; });
  EXPECT_TRUE(at::equal(counting(x), x + 1));
  EXPECT_TRUE(at::equal(counting(x), x + 2));

  auto compiled = firesteel::compile(halve);
  auto around = firesteel::nonstrict([compiled](const Tensor& t) { return compiled(t); }, "around");
  const std::string text = firesteel::trace([&](const Tensor& t) { return around(t); }, x).str();
  EXPECT_EQ(lines_from(text, "around"), 2u) << text;  // inside a trace there is one graph: the outer one's
  EXPECT_EQ(compiled.graph_count(), 0u);

  // Marked functions keep their signature: an int is taken as the double that it is due.
  auto scaled = firesteel::compile(firesteel::nonstrict([](const Tensor& t, double by) { return t * by; }));
  EXPECT_TRUE(at::equal(scaled(x, 2), x * 2));
  EXPECT_TRUE(at::equal(scaled(x, 2.0), x * 2));
  EXPECT_EQ(scaled.graph_count(), 1u);
}

// --- disable and graph_break

struct Disabled {
  std::shared_ptr<int> runs = std::make_shared<int>(0);
  std::shared_ptr<std::vector<double>> values = std::make_shared<std::vector<double>>();
  auto function() const {
    return firesteel::disable(
        [runs = runs, values = values](const Tensor& x) {
          EXPECT_FALSE(firesteel::is_compiling());
          ++*runs;
          values->push_back(x.sum().item<double>());
          return x * 2;
        },
        "report", "it reads values");
  }
};

TEST(Controls, DisabledRunsEachTimeOnRealTensors) {
  Disabled report;
  auto function = report.function();
  auto compiled = firesteel::compile([function](const Tensor& x) { return function(x + 1) - 1; });
  for (int call = 1; call <= 3; ++call) {
    Tensor x = at::full({2}, static_cast<double>(call));
    EXPECT_TRUE(at::equal(compiled(x), (x + 1) * 2 - 1));
    EXPECT_EQ(*report.runs, call);
    EXPECT_EQ(report.values->back(), 2.0 * (call + 1));
  }
  EXPECT_EQ(compiled.graph_count(), 0u);
  ASSERT_EQ(compiled.breaks().size(), 1u);  // traced once; later calls know
  const firesteel::GraphBreak found = compiled.breaks()[0];
  EXPECT_EQ(found.reason, "`report` is disabled: it reads values [FS-DISABLED]");
  EXPECT_TRUE(contains(found.file, "controls_test.cpp"));
  EXPECT_GT(found.line, 0u);
  EXPECT_TRUE(found.str().starts_with("controls_test.cpp:")) << found.str();
}

TEST(Controls, DisabledIsLikeEagerWithGradientsWritesAndRandomNumbers) {
  Disabled report;
  auto function = report.function();
  check(
      [function](const Tensor& x, const Tensor& buffer) {
        buffer.add_(1);
        Tensor kept = x * at::bernoulli(at::full_like(x, 0.5));
        return function(kept.sin()) + at::rand({3}) + buffer;
      },
      [] { return std::make_tuple(grad({3}), at::randn({3})); }, {}, /*graphs=*/0);
}

TEST(Controls, OnlySignaturesThatBreakRunEagerly) {
  int runs = 0;
  auto compiled = firesteel::compile([&runs](const Tensor& x) {
    ++runs;
    if (x.dim() == 2) firesteel::graph_break("matrices are rare");
    return x.cos();
  });
  Tensor vector = at::randn({3}), matrix = at::randn({2, 2});
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(at::equal(compiled(vector), vector.cos()));
    EXPECT_TRUE(at::equal(compiled(matrix), matrix.cos()));
  }
  EXPECT_EQ(runs, 4);  // the vector's trace; the matrix's, cut short, and its two calls
  EXPECT_EQ(compiled.graph_count(), 1u);
  ASSERT_EQ(compiled.breaks().size(), 1u);
  EXPECT_EQ(compiled.breaks()[0].reason, "graph_break() is called: matrices are rare [FS-GRAPH-BREAK]");
}

TEST(Controls, CompiledFunctionsInsideAnEagerOneStayCompiled) {
  auto inner = firesteel::compile(halve);
  auto outer = firesteel::compile([inner](const Tensor& x) {
    firesteel::graph_break();
    return inner(x) + 1;
  });
  Tensor x = grad({3});
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(at::equal(outer(x), halve(x) + 1));
  EXPECT_EQ(outer.graph_count(), 0u);
  EXPECT_EQ(inner.graph_count(), 1u);
}

TEST(Controls, CompiledInsideDisabledInsideCompiled) {
  auto inner = firesteel::compile(halve);
  auto disabled = firesteel::disable([inner](const Tensor& x) { return inner(x); }, "middle");
  auto outer = firesteel::compile([disabled](const Tensor& x) { return disabled(x) * 2; });
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::equal(outer(x), halve(x) * 2));
  EXPECT_EQ(inner.graph_count(), 1u);
  EXPECT_EQ(outer.breaks().size(), 1u);
}

TEST(Controls, DisabledInsideNonstrictAndCompiledAsSuch) {
  Disabled report;
  auto function = report.function();
  auto around = firesteel::nonstrict([function](const Tensor& x) { return function(x); }, "around");
  auto compiled = firesteel::compile([around](const Tensor& x) { return around(x); });
  EXPECT_TRUE(at::equal(compiled(at::ones({2})), at::full({2}, 2.0)));
  EXPECT_EQ(compiled.breaks().size(), 1u);

  auto whole = firesteel::compile(report.function());
  EXPECT_TRUE(at::equal(whole(at::ones({2})), at::full({2}, 2.0)));
  EXPECT_EQ(whole.graph_count(), 0u);
}

TEST(Controls, ABreakCannotBeSwallowed) {
  auto compiled = firesteel::compile([](const Tensor& x) {
    try {
      firesteel::graph_break();
    } catch (...) {
      return x * 100;  // what only a trace would see
    }
    return x + 1;
  });
  EXPECT_TRUE(at::equal(compiled(at::ones({2})), at::full({2}, 2.0)));
  EXPECT_EQ(compiled.graph_count(), 0u);
  EXPECT_EQ(compiled.breaks().size(), 1u);
}

TEST(Controls, GraphBreakDoesNothingOutsideATrace) {
  firesteel::graph_break("nobody listens");
  EXPECT_TRUE(at::equal(firesteel::disable(halve)(at::zeros({2})), at::zeros({2})));
}

TEST(Controls, FullgraphMakesABreakAnError) {
  Tensor touched = at::zeros({2});
  auto compiled = firesteel::compile(
      [](const Tensor& x) {
        x.add_(1);
        firesteel::graph_break("here");
        return x;
      },
      {.fullgraph = true});
  for (int round = 0; round < 2; ++round) {
    const std::string text = break_error([&] { compiled(touched); });
    EXPECT_TRUE(contains(text, "reason: graph_break() is called: here [FS-GRAPH-BREAK]")) << text;
    EXPECT_TRUE(contains(text, "controls_test.cpp:")) << text;
    EXPECT_TRUE(contains(text, "try: ")) << text;
  }
  EXPECT_TRUE(at::equal(touched, at::zeros({2})));  // nothing had run
  EXPECT_TRUE(compiled.breaks().empty());
}

TEST(Controls, TraceRefusesABreak) {
  Disabled report;
  auto function = report.function();
  const std::string text =
      break_error([&] { firesteel::trace([&](const Tensor& x) { return function(x); }, at::ones({2})); });
  EXPECT_TRUE(contains(text, "`report` is disabled: it reads values [FS-DISABLED]")) << text;
  EXPECT_EQ(*report.runs, 0);
  EXPECT_FALSE(firesteel::is_compiling());
}

TEST(Controls, BreakInABackwardIsABreakToo) {
  struct Doubled : torch::autograd::Function<Doubled> {
    static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x * 2; }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list gradients) {
      firesteel::graph_break("in the backward");
      return {gradients[0] * 2};
    }
  };
  auto compiled = firesteel::compile([](const Tensor& x) { return Doubled::apply(x).sin(); });
  Tensor x = grad({3});
  compiled(x).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), (x * 2).cos() * 2));
  EXPECT_EQ(compiled.graph_count(), 0u);
  EXPECT_EQ(compiled.breaks().size(), 1u);
}

TEST(Controls, SignaturesThatBreakCountTowardsTheLimit) {
  auto compiled = firesteel::compile(
      [](const Tensor& x) {
        firesteel::graph_break();
        return x + 1;
      },
      {.recompile_limit = 2});
  for (int64_t size = 1; size < 5; ++size) EXPECT_TRUE(at::equal(compiled(at::zeros({size})), at::ones({size})));
  EXPECT_EQ(compiled.breaks().size(), 2u);
}

TEST(Controls, ManyThreadsBreakOnce) {
  Disabled report;
  auto compiled = firesteel::compile([](const Tensor& x) {
    firesteel::graph_break();
    return x + 1;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 20; ++call) EXPECT_TRUE(at::equal(compiled(at::zeros({2})), at::ones({2})));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled.breaks().size(), 1u);
}

TEST(Controls, NullFunctionsAreRefused) {
  Tensor (*none)(const Tensor&) = nullptr;
  EXPECT_THROW(firesteel::nonstrict(none), std::invalid_argument);
  EXPECT_THROW(firesteel::disable(none), std::invalid_argument);
}

}  // namespace
