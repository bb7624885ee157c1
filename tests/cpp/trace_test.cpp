// firesteel::trace: the graph's text, calls on fresh values, and refusals.
#include "like_eager.h"

#include "compiler.h"

namespace {

using at::Tensor;

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Trace, TextOfAPlainGraph) {
  auto graph =
      firesteel::trace([](Tensor x, Tensor y) { return x.mm(y).relu(); }, at::randn({2, 3}), at::randn({3, 4}));
  EXPECT_TRUE(contains(graph.str(), "aten.mm(")) << graph.str();
  EXPECT_TRUE(contains(graph.str(), "f32[2, 4]")) << graph.str();
  EXPECT_FALSE(graph.has_backward());
  EXPECT_EQ(graph.backward(), "");
  EXPECT_EQ(firesteel::parse_graph(graph.str()).str(), graph.str()) << "the text reads back";
  EXPECT_GT(graph.times().trace_ms, 0);
  EXPECT_TRUE(contains(graph.times().str(), "partition"));
}

TEST(Trace, JointForwardAndBackward) {
  Tensor weight = at::randn({3, 3}).requires_grad_();
  auto graph = firesteel::trace([weight](Tensor x) { return x.mm(weight).tanh(); }, at::randn({2, 3}));
  ASSERT_TRUE(graph.has_backward());
  EXPECT_TRUE(contains(graph.joint(), "backward:")) << graph.joint();
  EXPECT_TRUE(contains(graph.joint(), "captured")) << graph.joint();
  EXPECT_TRUE(contains(graph.forward(), "aten.tanh")) << graph.forward();
  EXPECT_TRUE(contains(graph.backward(), "aten.tanh_backward")) << graph.backward();
  for (const std::string& text : {graph.joint(), graph.forward(), graph.backward()}) {
    EXPECT_EQ(firesteel::parse_graph(text).str(), text);
  }
  Tensor x = at::randn({2, 3});
  graph(x).sum().backward();
  Tensor ours = weight.grad().clone();
  weight.mutable_grad().reset();
  x.mm(weight).tanh().sum().backward();
  EXPECT_TRUE(at::allclose(ours, weight.grad()));
}

TEST(Trace, GradientsAreLeftOutWhereNobodyWantsThem) {
  at::NoGradGuard no_grad;
  EXPECT_FALSE(firesteel::trace([](Tensor x) { return x * x; }, like_eager::grad({2})).has_backward());
}

TEST(Trace, NestedArgumentsKeepTheirStructure) {
  using Dict = std::map<std::string, Tensor>;
  auto graph =
      firesteel::trace([](const std::vector<Tensor>& list, const Dict& named,
                          int64_t power) { return std::make_pair(list[0] + list[1], named.at("a").pow(power)); },
                       std::vector<Tensor>{at::ones({2}), at::ones({2})}, Dict{{"a", at::ones({3})}}, 2);
  EXPECT_TRUE(contains(graph.str(), "\"a\": ")) << graph.str();
  const Tensor p = at::randn({2}), q = at::randn({2}), a = at::randn({3});
  auto [sum, square] = graph({p, q}, {{"a", a}}, 2);
  EXPECT_TRUE(at::equal(sum, p + q));
  EXPECT_TRUE(at::equal(square, a * a));
  EXPECT_THROW(graph({p, q}, {{"a", a}}, 3), firesteel::InputMismatchError);
  EXPECT_THROW(graph({p}, {{"a", a}}, 2), firesteel::InputMismatchError);
  EXPECT_THROW(graph({p, q}, {{"b", a}}, 2), firesteel::InputMismatchError);
}

TEST(Trace, GenericLambdas) {
  auto graph = firesteel::trace([](const auto& x, auto n) { return x * n; }, at::ones({3}), 2.0);
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::equal(graph(x, 2.0), x * 2.0));
}

TEST(Trace, WrongInputsAreNamed) {
  auto graph = firesteel::trace([](Tensor x, Tensor y) { return x + y; }, at::ones({2}), at::ones({2}));
  auto message = [&](const Tensor& x, const Tensor& y) -> std::string {
    try {
      graph(x, y);
    } catch (const firesteel::InputMismatchError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_TRUE(contains(message(at::ones({3}), at::ones({2})),
                       "input 0 has another shape than in the trace: traced [2], given [3]"));
  EXPECT_TRUE(contains(message(at::ones({2}), at::ones({2}, at::kLong)), "input 1 has another dtype"));
  EXPECT_TRUE(contains(message(at::ones({2}), Tensor()), "nest in another way"));
  EXPECT_TRUE(contains(message(at::ones({4}).slice(0, 0, 4, 2), at::ones({2})), "strides"));
  Tensor same = at::randn({2});
  EXPECT_TRUE(at::equal(graph(same, same), same + same)) << "a graph that writes nothing takes one tensor twice";
}

TEST(Trace, SharedMemoryThatTheGraphCountsOn) {
  Tensor base = at::zeros({4});
  auto graph = firesteel::trace(
      [](Tensor whole, Tensor part) {
        part.add_(1);
        return whole * 2;
      },
      base, base.slice(0, 1, 3));
  EXPECT_TRUE(at::equal(base, at::zeros({4}))) << "tracing changes nothing";
  Tensor other = at::zeros({4});
  EXPECT_TRUE(at::equal(graph(other, other.slice(0, 1, 3)), at::tensor({0., 2., 2., 0.}).to(at::kFloat)));
  EXPECT_THROW(graph(at::zeros({4}), at::zeros({2})), firesteel::InputMismatchError);
  EXPECT_THROW(graph(other, other.slice(0, 0, 2)), firesteel::InputMismatchError);
}

TEST(Trace, AGraphInsideAnotherTrace) {
  auto inner = firesteel::trace([](Tensor x) { return x.sin(); }, at::ones({3}));
  auto outer = firesteel::trace([&](Tensor x) { return inner(x) * 2; }, at::ones({3}));
  EXPECT_TRUE(contains(outer.str(), "aten.sin")) << outer.str();
  Tensor x = at::randn({3});
  EXPECT_TRUE(at::allclose(outer(x), x.sin() * 2));
}

TEST(Trace, Refusals) {
  EXPECT_THROW(firesteel::trace([](Tensor x) { return x.item<double>(); }, at::ones({1})),
               firesteel::DataDependentError);
  EXPECT_THROW(firesteel::trace([](Tensor x) { return x * 2; }, at::ones({2}).to_sparse()), firesteel::TraceError);
  Tensor leaf = like_eager::grad({2});
  EXPECT_THROW(firesteel::trace(
                   [](Tensor x) {
                     Tensor loss = (x * x).sum();
                     loss.backward();
                     return loss;
                   },
                   leaf),
               firesteel::MutationError);
  EXPECT_FALSE(leaf.grad().defined());
  EXPECT_THROW(firesteel::trace(
                   [](Tensor x) {
                     x.resize_({5});
                     return x + 1;
                   },
                   at::ones({2})),
               firesteel::Error);
}

TEST(CompileTrace, PassesRunAndCanBeLeftOut) {
  auto work = [](const std::vector<Tensor>& in) {
    firesteel::FunctionResult result;
    in[0].cos();  // nobody reads it
    result.tensors = {in[0].sin() + in[0].sin()};
    return result;
  };
  const firesteel::FlatFunction function = work;
  const std::vector<Tensor> inputs{at::randn({3})};
  firesteel::CompilerOptions as_recorded;
  as_recorded.passes = false;
  firesteel::StageTimes times;
  const auto plain = firesteel::compile_function(function, inputs, {}, as_recorded);
  const auto better = firesteel::compile_function(function, inputs, {}, {}, &times);
  EXPECT_EQ(plain.joint().nodes.size(), 4u) << plain.joint().str();
  EXPECT_EQ(better.joint().nodes.size(), 2u) << better.joint().str();
  EXPECT_TRUE(at::equal(plain(inputs)[0], better(inputs)[0]));
  EXPECT_GT(times.total_ms(), 0);
}

}  // namespace
