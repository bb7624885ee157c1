// Compiled functions against eager: mutation, aliases, types, layouts, and the modes around a call.
#include "like_eager.h"

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>

namespace {

using at::Tensor;
using like_eager::check;
using like_eager::grad;

TEST(CompileSemantics, MutatedInputs) {
  check(
      [](Tensor x, Tensor y) {
        x.add_(y).mul_(2);
        x.select(0, 1).zero_();
        return x + y;
      },
      [] {
        return std::make_tuple(at::randn({3, 2}), at::randn({2}));
      });
  check(
      [](Tensor x) {
        Tensor y = x * 2;
        y.sub_(1);
        y.narrow(0, 0, 1).fill_(3);
        return y.exp();
      },
      [] {
        return std::make_tuple(grad({3, 2}));
      });
}

TEST(CompileSemantics, WritesKeepTheLayout) {
  check(
      [](Tensor x) {
        Tensor y = x * 1;
        y.transpose(0, 1).masked_fill_(y.t() > 0, 2.0);
        y.reshape({-1}).mul_(3);  // a view in eager: so it must be one here
        x.transpose(0, 1).masked_fill_(x.t() > 0, 2.0);
        return std::make_tuple(y, y.view({-1}), x.t());
      },
      [] {
        return std::make_tuple(at::randn({3, 4}));
      });
}

TEST(CompileSemantics, WriteThatAutogradDoesNotSee) {
  check(
      [](Tensor x) {
        x.detach().mul_(2);
        return x * 3;
      },
      [] { return std::make_tuple(grad({3})); });
}

TEST(CompileSemantics, ViewMadeBeforeItsInputChangedShape) {
  check(
      [](Tensor x) {
        Tensor row = x.select(0, 1);
        x.unsqueeze_(0);
        return std::make_pair(row, x.select(0, 0));
      },
      [] {
        return std::make_tuple(at::randn({3, 4}));
      });
}

TEST(CompileSemantics, TheGeneratorGoesWhereTheFunctionPutsIt) {
  auto generator = at::detail::getDefaultCPUGenerator();
  check(
      [=](Tensor x) mutable {
        const Tensor start = generator.get_state();
        Tensor first = at::rand({4});
        generator.set_state(start);
        Tensor second = at::randn({3});
        like_eager::seed(3);
        Tensor third = at::rand({4});
        like_eager::seed(3);
        return std::make_tuple(x + first, second, third, at::rand({5}), at::dropout(x.t(), 0.5, true));
      },
      [] {
        return std::make_tuple(at::randn({4, 4}));
      });
}

TEST(CompileSemantics, MutatedNonLeafKeepsItsGradient) {
  auto work = [](Tensor x) {
    x.mul_(3);
    return x.sin();
  };
  auto compiled = firesteel::compile(work);
  for (int round = 0; round < 3; ++round) {
    Tensor a = grad({4}), b = a.detach().clone().requires_grad_();
    Tensor ax = a * 2, bx = b * 2;
    Tensor ay = work(ax), by = compiled(bx);
    EXPECT_TRUE(at::allclose(ax, bx));
    (ay.sum() + (ax * ax).sum()).backward();
    (by.sum() + (bx * bx).sum()).backward();
    EXPECT_TRUE(at::allclose(a.grad(), b.grad()));
  }
}

TEST(CompileSemantics, ViewsOfInputsAsResults) {
  auto work = [](Tensor x) { return std::make_pair(x.t(), x.select(0, 1).view({-1})); };
  check(work, [] { return std::make_tuple(at::randn({2, 3})); });
  auto compiled = firesteel::compile(work);
  for (int round = 0; round < 2; ++round) {
    Tensor x = at::randn({2, 3});
    auto [t, row] = compiled(x);
    EXPECT_TRUE(t.is_alias_of(x) && row.is_alias_of(x) && t.is_view());
    t.fill_(5);
    EXPECT_TRUE(at::equal(row, at::full({3}, 5)));
  }
  // Gradients go through the view, and a write to it reaches the base's history.
  Tensor a = grad({2, 3}), b = a.detach().clone().requires_grad_();
  Tensor ax = a * 1, bx = b * 1;
  work(ax).first.mul_(2);
  compiled(bx).first.mul_(2);
  ax.pow(2).sum().backward();
  bx.pow(2).sum().backward();
  EXPECT_TRUE(at::allclose(a.grad(), b.grad()));
}

TEST(CompileSemantics, ResultsThatShareMemoryWithEachOther) {
  check(
      [](Tensor x) {
        Tensor y = x * 2;
        return std::vector<Tensor>{y, y, y.t(), y.select(0, 0)};
      },
      [] {
        return std::make_tuple(grad({2, 2}));
      });
  auto compiled = firesteel::compile([](Tensor x) {
    Tensor y = x + 1;
    return std::make_pair(y, y.view({-1}));
  });
  auto [y, flat] = compiled(at::randn({2, 2}));
  EXPECT_TRUE(y.is_alias_of(flat));
}

TEST(CompileSemantics, ResultsThatAreInputs) {
  auto compiled = firesteel::compile([](Tensor x, Tensor y) {
    const Tensor sum = x + y;
    return std::make_tuple(x, sum, y.add_(1));
  });
  for (int round = 0; round < 3; ++round) {
    Tensor x = grad({3}), y = at::randn({3}), before = y.clone();
    auto [same, sum, written] = compiled(x, y);
    EXPECT_TRUE(same.is_same(x));
    EXPECT_TRUE(written.is_same(y));
    EXPECT_TRUE(at::allclose(sum, x + before));
    EXPECT_TRUE(at::allclose(y, before + 1));
  }
}

TEST(CompileSemantics, DuplicateAndOverlappingInputs) {
  auto work = [](Tensor x, Tensor y) {
    x.add_(1);
    return x * y;
  };
  auto compiled = firesteel::compile(work);
  for (int round = 0; round < 2; ++round) {
    Tensor a = at::randn({4}), b = a.clone();
    EXPECT_TRUE(at::allclose(compiled(a, a), work(b, b)));
    EXPECT_TRUE(at::allclose(a, b));
    Tensor c = at::randn({4}), d = at::randn({4}), e = c.clone();
    EXPECT_TRUE(at::allclose(compiled(c, d), work(e, d)));
    Tensor f = at::randn({4}), g = f.clone();
    EXPECT_TRUE(at::allclose(compiled(f, f.view({2, 2}).view({4})), work(g, g.view({4}))));
    EXPECT_TRUE(at::allclose(f, g));
  }
  EXPECT_EQ(compiled.graph_count(), 3u);
  check([](Tensor x, Tensor y) { return x * y + x.sin(); },
        [] {
          Tensor x = grad({3});
          return std::make_tuple(x, x);
        });
}

TEST(CompileSemantics, AnArgumentThatIsAlsoCaptured) {
  Tensor weight = at::randn({3});
  auto work = [weight](Tensor x) { return weight * 2 + x; };
  auto compiled = firesteel::compile(work);
  EXPECT_TRUE(at::equal(compiled(weight), work(weight)));
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::equal(compiled(x), work(x)));
  EXPECT_TRUE(at::equal(compiled(weight), work(weight)));
  EXPECT_EQ(compiled.graph_count(), 2u);
  // Memory that the function captures, seen through an argument.
  auto rows = firesteel::compile([weight](Tensor y) { return weight.select(0, 0) + y; });
  EXPECT_TRUE(at::equal(rows(weight), weight[0] + weight));
  EXPECT_TRUE(at::equal(rows(x), weight[0] + x));
}

TEST(CompileSemantics, CapturedTensors) {
  Tensor scale = at::randn({3}).requires_grad_(), count = at::zeros({});
  auto work = [scale, count](Tensor x) {
    count.add_(1);
    return x * scale + count;
  };
  auto compiled = firesteel::compile(work);
  for (int round = 1; round <= 3; ++round) {
    Tensor x = at::randn({3});
    Tensor y = compiled(x);
    EXPECT_TRUE(at::allclose(y, x * scale + round));
    y.sum().backward();
    EXPECT_TRUE(at::allclose(scale.grad(), x));
    scale.mutable_grad().reset();
    EXPECT_EQ(count.item<double>(), round);
    at::NoGradGuard no_grad;
    scale.mul_(0.5);  // in-place changes are seen
  }
  EXPECT_EQ(compiled.graph_count(), 1u);
  scale.set_requires_grad(false);
  EXPECT_FALSE(compiled(at::randn({3})).requires_grad());
  scale.set_requires_grad(true);
  EXPECT_TRUE(compiled(at::randn({3})).requires_grad());
  EXPECT_EQ(compiled.graph_count(), 2u);
}

TEST(CompileSemantics, NoGradAndInferenceMode) {
  auto work = [](Tensor x) {
    Tensor y = x * 2;
    {
      at::NoGradGuard no_grad;
      y = y + x.exp();
    }
    return y * x;
  };
  check(work, [] { return std::make_tuple(grad({3})); });
  auto compiled = firesteel::compile(work);
  Tensor x = grad({3});
  EXPECT_TRUE(compiled(x).requires_grad());
  {
    at::NoGradGuard no_grad;
    Tensor y = compiled(x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(at::allclose(y, work(x)));
  }
  {
    c10::InferenceMode inference;
    for (int round = 0; round < 2; ++round) {
      Tensor fresh = at::randn({3});
      Tensor y = compiled(fresh);
      EXPECT_TRUE(y.is_inference());
      EXPECT_TRUE(at::allclose(y, work(fresh)));
      EXPECT_TRUE(at::allclose(compiled(x), work(x)));
    }
  }
  EXPECT_TRUE(compiled(x).requires_grad());
}

TEST(CompileSemantics, Autocast) {
  auto weight = at::randn({4, 4}).requires_grad_();
  auto work = [weight](Tensor x) { return x.mm(weight).softmax(1); };
  auto compiled = firesteel::compile(work);
  auto run = [&](bool autocast) {
    at::autocast::set_autocast_enabled(at::kCPU, autocast);
    Tensor x = at::randn({2, 4});
    Tensor ours = compiled(x), eager = work(x);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_TRUE(like_eager::same(eager, ours)) << eager << ours;
    auto ours_grad = like_eager::gradients({ours}, {weight}), eager_grad = like_eager::gradients({eager}, {weight});
    like_eager::expect_same(eager_grad, ours_grad, "gradient");
  };
  for (bool autocast : {false, true, false, true}) run(autocast);
  EXPECT_EQ(compiled.graph_count(), 2u);
}

TEST(CompileSemantics, OtherTypes) {
  check([](Tensor x, Tensor y) { return std::make_pair(x.mm(y).relu(), (x * 2).to(at::kFloat).sum()); },
        [] {
          return std::make_tuple(at::randn({3, 4}).to(at::kBFloat16).requires_grad_(),
                                 at::randn({4, 2}).to(at::kBFloat16));
        });
  check(
      [](Tensor i, Tensor b) {
        return std::make_tuple(i * 3 + b.to(at::kLong), i.gt(4) & b, i.div(2, "floor"), i.to(at::kByte));
      },
      [] { return std::make_tuple(at::randint(10, {5}, at::kLong), at::rand({5}) > 0.5); });
  check([](Tensor z) { return std::make_pair((z * z.conj()).exp(), at::view_as_real(z * 2).sum(-1)); },
        [] { return std::make_tuple(at::randn({3}, at::kComplexDouble).requires_grad_()); });
  check([](Tensor x) { return x.cumsum(0).to(at::kHalf); },
        [] { return std::make_tuple(at::randn({4}, at::kDouble).requires_grad_()); });
}

TEST(CompileSemantics, ConjugateViewsAsInputs) {
  auto work = [](Tensor z) { return z * 2 + at::imag(z); };
  auto compiled = firesteel::compile(work);
  for (int round = 0; round < 2; ++round) {
    Tensor z = at::randn({3}, at::kComplexFloat);
    EXPECT_TRUE(at::allclose(compiled(z), work(z)));
    EXPECT_TRUE(at::allclose(compiled(z.conj()), work(z.conj())));
  }
  EXPECT_EQ(compiled.graph_count(), 2u);
}

TEST(CompileSemantics, ChannelsLast) {
  Tensor weight = at::randn({4, 3, 3, 3}).requires_grad_();
  check([weight](Tensor x) { return at::conv2d(x, weight, {}, 1, 1).relu() + 1; },
        [] {
          return std::make_tuple(at::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_());
        },
        {weight});
}

TEST(CompileSemantics, FactoriesConstantsAndEmptyTensors) {
  check(
      [](Tensor x) {
        Tensor mask = at::ones({3, 3}).tril().to(x.scalar_type());
        return std::make_tuple(x * mask + at::arange(3) + at::scalar_tensor(2.0), at::zeros({0, 3}),
                               x.narrow(0, 0, 0).sum());
      },
      [] {
        return std::make_tuple(at::randn({3, 3}).requires_grad_());
      });
}

}  // namespace
