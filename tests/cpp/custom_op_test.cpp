// Operators registered in C++ with TORCH_LIBRARY: with an autograd formula, without a shape rule, and one that writes.
#include "like_eager.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aot/trace.h"

namespace {

using at::Tensor;

Tensor call(const char* name, const Tensor& x, double by) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Tensor(const Tensor&, double)>().call(x, by);
}

Tensor scale_kernel(const Tensor& x, double by) { return x * by; }

struct ScaleFunction : torch::autograd::Function<ScaleFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, double by) {
    context->saved_data["by"] = by;
    at::AutoDispatchBelowADInplaceOrView guard;
    return call("firesteel_test::scale", x, by);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    return {call("firesteel_test::scale", gradients[0], context->saved_data["by"].toDouble()), Tensor()};
  }
};
Tensor scale_autograd(const Tensor& x, double by) { return ScaleFunction::apply(x, by); }

// The shape of the result is known to this kernel alone.
Tensor stack_rows_kernel(const Tensor& x, double by) { return at::cat({x, x * by}, 0).contiguous(); }

void bump_kernel(const Tensor& target, double by) { target.add_(by); }
void bump(const Tensor& target, double by) {
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("firesteel_test::bump_", "")
      .typed<void(const Tensor&, double)>()
      .call(target, by);
}

TORCH_LIBRARY(firesteel_test, library) {
  library.def("scale(Tensor x, float by) -> Tensor");
  library.def("stack_rows(Tensor x, float by) -> Tensor");
  library.def("bump_(Tensor(a!) target, float by) -> ()");
}
TORCH_LIBRARY_IMPL(firesteel_test, CPU, library) {
  library.impl("scale", scale_kernel);
  library.impl("stack_rows", stack_rows_kernel);
  library.impl("bump_", bump_kernel);
}
TORCH_LIBRARY_IMPL(firesteel_test, AutogradCPU, library) { library.impl("scale", scale_autograd); }

TEST(CustomOp, WithAnAutogradFormula) {
  like_eager::check([](Tensor x) { return call("firesteel_test::scale", x.sin(), 3) * x; },
                    [] { return std::make_tuple(like_eager::grad({4})); });
  auto graph = firesteel::trace([](Tensor x) { return call("firesteel_test::scale", x, 3); }, like_eager::grad({4}));
  EXPECT_NE(graph.forward().find("firesteel_test.scale"), std::string::npos) << graph.str();
  EXPECT_NE(graph.backward().find("firesteel_test.scale"), std::string::npos) << graph.backward();
}

TEST(CustomOp, WithoutAShapeRuleItRunsOnZeros) {
  firesteel::reset_trace_counters();
  like_eager::check([](Tensor x) { return call("firesteel_test::stack_rows", x, 2).sum(1); },
                    [] {
                      return std::make_tuple(at::randn({2, 3}));
                    });
  EXPECT_GE(firesteel::trace_counters().zero_run, 1u);
}

TEST(CustomOp, ThatWrites) {
  like_eager::check(
      [](Tensor x) {
        Tensor y = x * 2;
        bump(y, 1.5);
        bump(x, 1);
        return y.exp();
      },
      [] { return std::make_tuple(at::randn({3})); });
}

// Operators of torch that have a shape kernel in Python only: here there is no Python.
TEST(ShapesWithoutPython, TheRealKernelOnZerosKnows) {
  using Function = std::function<std::vector<Tensor>(Tensor)>;
  auto both = [](const std::tuple<Tensor, Tensor>& pair) {
    return std::vector<Tensor>{std::get<0>(pair), std::get<1>(pair)};
  };
  const std::vector<std::pair<const char*, Function>> cases = {
      {"histc", [](Tensor x) { return std::vector<Tensor>{at::histc(x, 7, -1, 1)}; }},
      {"mode", [&](Tensor x) { return both(at::mode(x.round(), 1)); }},
      {"kthvalue", [&](Tensor x) { return both(at::kthvalue(x, 2, 1)); }},
      {"median", [&](Tensor x) { return both(at::median(x, 1)); }},
      {"logcumsumexp", [](Tensor x) { return std::vector<Tensor>{at::logcumsumexp(x, 0)}; }},
      {"take", [](Tensor x) { return std::vector<Tensor>{at::take(x, at::arange(3))}; }},
      {"cdist", [](Tensor x) { return std::vector<Tensor>{at::cdist(x, x + 1)}; }},
      {"rfft", [](Tensor x) { return std::vector<Tensor>{at::fft_rfft(x)}; }},
      {"channel_shuffle",
       [](Tensor x) {
         return std::vector<Tensor>{at::channel_shuffle(x.view({1, 4, 2, 3}), 2)};
       }},
      {"grid_sampler",
       [](Tensor x) {
         return std::vector<Tensor>{at::grid_sampler_2d(x.view({1, 1, 4, 6}), at::zeros({1, 2, 3, 2}), 0, 0, false)};
       }},
      {"qr", [&](Tensor x) { return both(at::linalg_qr(x)); }},
      {"svd", [](Tensor x) { return std::vector<Tensor>{at::linalg_svdvals(x)}; }},
      {"roll", [](Tensor x) { return std::vector<Tensor>{at::roll(x, 1, 0)}; }},
      {"max_unpool",
       [&](Tensor x) {
         auto [pooled, where] = at::max_pool2d_with_indices(x.view({1, 1, 4, 6}), 2);
         return std::vector<Tensor>{at::max_unpool2d(pooled, where, {4, 6})};
       }},
  };
  firesteel::reset_trace_counters();
  for (const auto& [name, function] : cases) {
    SCOPED_TRACE(name);
    like_eager::check(function, [] { return std::make_tuple(at::randn({4, 6})); });
  }
  EXPECT_GE(firesteel::trace_counters().zero_run, 4u);
  EXPECT_EQ(firesteel::trace_counters().python_meta, 0u);
}

}  // namespace
