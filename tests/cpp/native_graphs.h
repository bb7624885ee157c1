// What the tests of native code build on: graph text over real tensors, run by ATen and in kernels for each target.
#pragma once

#include <cstdlib>
#include <limits>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/kernel_compiler.h"
#include "fuse/fusion.h"
#include "runtime/program.h"

namespace firesteel::testing_native {

inline constexpr const char* kTargets[] = {"sse", "avx2", "avx512"};

// Sets FIRESTEEL_CPU for a while.
struct TargetScope {
  explicit TargetScope(const char* target) { setenv("FIRESTEEL_CPU", target, 1); }
  ~TargetScope() { unsetenv("FIRESTEEL_CPU"); }
};

inline std::string type_text(const at::Tensor& tensor) {
  return Type::tensor(tensor.scalar_type(), tensor.device(), {tensor.sizes().begin(), tensor.sizes().end()},
                      {tensor.strides().begin(), tensor.strides().end()})
      .str();
}

// Writes a graph line by line, running each to learn its type.
class GraphText {
 public:
  explicit GraphText(std::vector<at::Tensor> inputs) : inputs(std::move(inputs)) {
    for (size_t i = 0; i < this->inputs.size(); ++i) {
      parameters_ += fmt::format("{}%x{}: {}", i ? ", " : "", i, type_text(this->inputs[i]));
    }
  }

  // `call`: "aten.add.Tensor(%x0, %x1)". The result's type is found by running the graph so far.
  std::string line(const std::string& call) {
    const std::string name = fmt::format("%v{}", count_++);
    // The type does not matter for running by ATen, so any will do.
    const Graph graph = parse_graph(text_with(name, fmt::format("  {}: f32[] = {}\n", name, call)));
    lines_ += fmt::format("  {}: {} = {}\n", name, type_text(Program(graph).run(inputs)[0]), call);
    return name;
  }
  std::string text(const std::string& results) const { return text_with(results, ""); }

  std::vector<at::Tensor> inputs;

 private:
  std::string text_with(const std::string& results, const std::string& more) const {
    return fmt::format("graph test({}) {{\n{}{}  return {}\n}}\n", parameters_, lines_, more, results);
  }
  std::string parameters_, lines_;
  int count_ = 0;
};

// Steps of the type between two floats; 0 where both are NaN.
inline at::Tensor ulp_distance(const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType type = a.scalar_type();
  const auto bits = type == at::kDouble ? at::kLong : type == at::kFloat ? at::kInt : at::kShort;
  auto ordered = [&](const at::Tensor& x) {
    at::Tensor whole = x.contiguous().view(bits).to(at::kLong);
    const int64_t lowest = bits == at::kLong  ? std::numeric_limits<int64_t>::min()
                           : bits == at::kInt ? INT32_MIN
                                              : INT16_MIN;
    return at::where(whole.lt(0), lowest - whole, whole);
  };
  return at::where(a.isnan().logical_and(b.isnan()), at::zeros({}, at::kLong), (ordered(a) - ordered(b)).abs());
}

struct Tolerance {
  int64_t ulp = 0;
  double absolute = 0;  // differences below it are no error either
};

inline void expect_same(const at::Tensor& got, const at::Tensor& wanted, Tolerance tolerance, const std::string& what) {
  ASSERT_EQ(got.scalar_type(), wanted.scalar_type()) << what;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  ASSERT_EQ(got.strides(), wanted.strides()) << what;
  if (got.numel() == 0) return;
  if (!got.is_floating_point()) {
    EXPECT_TRUE(got.equal(wanted)) << what;
    return;
  }
  at::Tensor distance = ulp_distance(got, wanted);
  distance = at::where((got - wanted).abs().le(tolerance.absolute), at::zeros_like(distance), distance);
  const int64_t worst = distance.max().item<int64_t>();
  if (worst <= tolerance.ulp) return;
  const int64_t at = distance.reshape({-1}).argmax().item<int64_t>();
  ADD_FAILURE() << what << ": " << worst << " ulp apart, " << got.reshape({-1})[at].item<double>() << " for "
                << wanted.reshape({-1})[at].item<double>();
}

// Runs the graph natively for every target, against ATen. Each group counts, even of one node.
inline void check(const std::string& text, const std::vector<at::Tensor>& inputs, size_t native_ops,
                  Tolerance tolerance = {}, size_t smallest_group = 1) {
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  const Graph graph = parse_graph(text);
  verify(graph);
  const std::vector<at::Tensor> wanted = Program(graph).run(inputs);
  for (const char* target : kTargets) {
    TargetScope scope(target);
    ProgramOptions options;
    options.native = true;
    options.fuse.smallest_group = smallest_group;
    Program program(graph, options);
    EXPECT_EQ(program.each_run().native_ops, native_ops) << target << "\n" << text;
    const std::vector<at::Tensor> got = program.run(inputs);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      expect_same(got[i], wanted[i], tolerance, fmt::format("{}, result {} of\n{}", target, i, text));
    }
  }
}

// One operator: "aten.exp(%x0)".
inline void check_op(const std::string& call, const std::vector<at::Tensor>& inputs, Tolerance tolerance = {}) {
  GraphText graph(inputs);
  const std::string result = graph.line(call);
  check(graph.text(result), inputs, 1, tolerance);
}

// Numbers that go wrong first, then random ones; 1003 elements fill no vector.
inline at::Tensor awkward(at::ScalarType type, double scale = 4.0) {
  const double inf = std::numeric_limits<double>::infinity();
  at::Tensor special =
      at::tensor({0.0,    -0.0,   1.0,     -1.0, 0.5,   inf,  -inf,  std::numeric_limits<double>::quiet_NaN(),
                  1e-40,  -1e-40, 1e-45,   3e38, -3e38, 88.5, -88.5, 89.0,
                  -104.0, 1e-8,   65504.0, 1e5},
                 at::kDouble);
  return at::cat({special, at::randn({983}, at::kDouble) * scale}).to(type);
}

}  // namespace firesteel::testing_native
