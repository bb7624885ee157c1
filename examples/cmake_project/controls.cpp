// The controls in C++: a function that keeps its name in the graph, and one that runs eagerly between compiled parts.
#include <cstdio>

#include <firesteel/firesteel.h>
#include <torch/torch.h>

int main() {
  using torch::Tensor;
  torch::manual_seed(0);
  const Tensor weight = torch::randn({4, 4}).requires_grad_();
  const Tensor x = torch::randn({2, 4});

  // nonstrict: the graph says which operators are its own.
  auto normalise = firesteel::nonstrict([](const Tensor& t) { return t / t.norm(); }, "normalise");
  auto encode = firesteel::compile([=](const Tensor& t) { return normalise(t.mm(weight)).tanh(); }, {.name = "encode"});
  auto decode = firesteel::compile([=](const Tensor& t) { return t.mm(weight.t()).sum(); }, {.name = "decode"});

  // disable: it sees real values at every call, and what lies around it stays compiled.
  int reports = 0;
  auto report = firesteel::disable(
      [&reports](const Tensor& t) {
        ++reports;
        std::printf("report: norm %.4f, compiling: %s\n", t.norm().item<double>(),
                    firesteel::is_compiling() ? "yes" : "no");
      },
      "report", "it prints");
  auto step = firesteel::compile(
      [=](const Tensor& t) {
        const Tensor code = encode(t);
        report(code);
        return decode(code);
      },
      {.name = "step"});

  bool equal = true;
  for (int call = 0; call < 3; ++call) {
    const Tensor value = step(x);
    const Tensor product = x.mm(weight);
    equal = equal && torch::allclose(value, (product / product.norm()).tanh().mm(weight.t()).sum());
    value.backward();
  }

  std::printf("\n%s\n", encode.graphs().at(0).forward().c_str());
  for (const firesteel::GraphBreak& found : step.breaks()) std::printf("step has no graph: %s\n", found.str().c_str());
  std::printf("graphs: step %zu, encode %zu, decode %zu\n", step.graph_count(), encode.graph_count(),
              decode.graph_count());
  const bool as_promised = equal && reports == 3 && weight.grad().defined() && step.breaks().size() == 1 &&
                           encode.graph_count() == 1 && decode.graph_count() == 1;
  std::printf("%s\n", as_promised ? "as promised" : "not as promised");
  return as_promised ? 0 : 1;
}
