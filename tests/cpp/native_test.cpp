// Native kernels against ATen: every operator of the table, every target, awkward numbers, layouts and fusions.
#include <random>

#include <ATen/Parallel.h>

#include "native_graphs.h"

using namespace firesteel;
using namespace firesteel::testing_native;

namespace {

constexpr at::ScalarType kFloats[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

struct OpCase {
  const char* call;
  Tolerance f32, f64, narrow;  // narrow: bfloat16 and float16
};

// clang-format off
// Exact where ATen's own formula is exact; a few ulp where both sides approximate.
const OpCase kExact[] = {
    {"aten.add.Tensor(%x0, %x1)"}, {"aten.sub.Tensor(%x0, %x1)"}, {"aten.mul.Tensor(%x0, %x1)"},
    {"aten.div.Tensor(%x0, %x1)"},
    {"aten.add.Tensor(%x0, 0.3)"}, {"aten.mul.Tensor(%x0, 0.3)"}, {"aten.div.Tensor(%x0, 0.3)"},
    {"aten.rsub.Scalar(%x0, 2)"},
    {"aten.neg(%x0)"}, {"aten.abs(%x0)"}, {"aten.relu(%x0)"}, {"aten.reciprocal(%x0)"},
    {"aten.maximum(%x0, %x1)"}, {"aten.minimum(%x0, %x1)"}, {"aten.clamp(%x0, -1, 1.5)"}, {"aten.clamp(%x0, 0.3)"},
    {"aten.clamp_min(%x0, 0.3)"}, {"aten.clamp_max(%x0, 0.3)"}, {"aten.hardtanh(%x0)"},
    {"aten.eq.Tensor(%x0, %x1)"}, {"aten.ne.Tensor(%x0, %x0)"}, {"aten.lt.Tensor(%x0, %x1)"},
    {"aten.le.Tensor(%x0, %x0)"},
    {"aten.gt.Scalar(%x0, 0.3)"}, {"aten.ge.Scalar(%x0, 1)"}, {"aten.logical_not(%x0)"},
    {"aten.pow.Tensor_Scalar(%x0, 2)"}, {"aten.pow.Tensor_Scalar(%x0, -1)"},
    {"aten.threshold_backward(%x0, %x1, 0)"}, {"aten.threshold_backward(%x0, %x1, 0.3)"},
    {"aten._to_copy(%x0, dtype=f32)"}, {"aten._to_copy(%x0, dtype=f64)"}, {"aten._to_copy(%x0, dtype=bf16)"},
    {"aten._to_copy(%x0, dtype=f16)"}, {"aten._to_copy(%x0, dtype=bool)"}, {"aten.clone(%x0)"},
};
// MKL's square root is 1 ulp off; erf of ATen's float vectors is good to 1e-7 only; and where a tensor does not fill
// ATen's vectors, the rest of a half-width tensor is rounded at each step.
const OpCase kApproximate[] = {
    {"aten.sqrt(%x0)", {1}, {1}, {0}}, {"aten.rsqrt(%x0)", {1}, {1}, {1}},
    {"aten.exp(%x0)", {2}, {2}, {1}}, {"aten.log(%x0)", {2}, {2}, {1}}, {"aten.sin(%x0)", {2}, {2}, {1}},
    {"aten.cos(%x0)", {2}, {2}, {1}},
    {"aten.tanh(%x0)", {2}, {2}, {1}}, {"aten.erf(%x0)", {2}, {2}, {1, 1e-6}}, {"aten.sigmoid(%x0)", {3}, {3}, {1}},
    {"aten.silu(%x0)", {3}, {3}, {1}},
};
// Finite numbers: of infinity, oneDNN's gelu makes NaN.
const OpCase kGelu[] = {
    {"aten.gelu(%x0)", {4, 1e-6}, {4, 1e-15}, {1, 1e-5}},
    {"aten.gelu(%x0, approximate=\"tanh\")", {4, 1e-6}, {4, 1e-15}, {1, 1e-5}},
};
// Gradients: differences of like numbers, so a small absolute error is left to both sides.
const OpCase kGradients[] = {
    {"aten.sigmoid_backward(%x0, %x1)", {2}, {2}, {2}}, {"aten.tanh_backward(%x0, %x1)", {2, 1e-6}, {2, 1e-14}, {1}},
    {"aten.silu_backward(%x0, %x1)", {4, 1e-5}, {4, 1e-14}, {1, 1e-5}},
    {"aten.gelu_backward(%x0, %x1)", {4, 1e-5}, {4, 1e-14}, {1, 1e-4}},
    {"aten.gelu_backward(%x0, %x1, approximate=\"tanh\")", {4, 1e-5}, {4, 1e-14}, {1, 1e-4}},
};
// clang-format on

void check_all(std::span<const OpCase> cases, const std::function<std::vector<at::Tensor>(at::ScalarType)>& inputs) {
  at::manual_seed(7);
  for (const OpCase& op : cases) {
    for (at::ScalarType type : kFloats) {
      const Tolerance tolerance = type == at::kFloat ? op.f32 : type == at::kDouble ? op.f64 : op.narrow;
      check_op(op.call, inputs(type), tolerance);
    }
  }
}

}  // namespace

TEST(Native, ExactOperators) {
  check_all(kExact, [](at::ScalarType type) { return std::vector{awkward(type), awkward(type).flip(0).contiguous()}; });
}

TEST(Native, ApproximateOperators) {
  check_all(kApproximate, [](at::ScalarType type) { return std::vector{awkward(type)}; });
}

TEST(Native, Gelu) {
  check_all(kGelu, [](at::ScalarType type) { return std::vector{(at::randn({1003}, at::kDouble) * 3).to(type)}; });
}

TEST(Native, ScaledSums) {
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    // Plain SSE has no fused multiply-add.
    check_op("aten.add.Tensor(%x0, %x1, alpha=0.5)", {awkward(type), awkward(type)}, {1});
    check_op("aten.sub.Tensor(%x0, %x0, alpha=0.3)", {awkward(type)}, {2});
  }
}

TEST(Native, SquareRootsByPow) {
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
    check_op("aten.pow.Tensor_Scalar(%x0, 0.5)", {awkward(type)}, {1});
}

TEST(Native, GradientOperators) {
  check_all(kGradients, [](at::ScalarType type) {
    return std::vector{at::randn({1003}, at::kDouble).to(type), (at::randn({1003}, at::kDouble) * 3).to(type)};
  });
}

TEST(Native, Integers) {
  for (at::ScalarType type : {at::kInt, at::kLong, at::kShort, at::kChar, at::kByte}) {
    const std::vector<at::Tensor> x{at::randint(-128, 128, {517}, at::kLong).to(type),
                                    at::randint(-128, 128, {517}, at::kLong).to(type)};
    for (const char* call :
         {"aten.add.Tensor(%x0, %x1)", "aten.sub.Tensor(%x0, 3)", "aten.mul.Tensor(%x0, %x1)", "aten.neg(%x0)",
          "aten.abs(%x0)", "aten.maximum(%x0, %x1)", "aten.relu(%x0)", "aten.lt.Tensor(%x0, %x1)",
          "aten.eq.Scalar(%x0, 5)", "aten.gt.Scalar(%x0, 0.5)", "aten.div.Tensor(%x0, 4)", "aten.add.Tensor(%x0, 0.5)",
          "aten._to_copy(%x0, dtype=f32)", "aten._to_copy(%x0, dtype=i8)", "aten._to_copy(%x0, dtype=i64)",
          "aten._to_copy(%x0, dtype=bool)", "aten._to_copy(%x0, dtype=bf16)", "aten.clamp(%x0, 1, 9)"}) {
      check_op(call, x);
    }
  }
  const std::vector<at::Tensor> floats{at::randn({100}) * 1000, at::randn({100}).to(at::kDouble)};
  check_op("aten._to_copy(%x0, dtype=i64)", floats);
  check_op("aten._to_copy(%x1, dtype=i32)", floats);
}

TEST(Native, Bools) {
  const std::vector<at::Tensor> x{at::rand({333}).gt(0.5), at::rand({333}).gt(0.5), at::randn({333}),
                                  at::randn({333}).to(at::kDouble)};
  for (const char* call :
       {"aten.logical_and(%x0, %x1)", "aten.bitwise_or.Tensor(%x0, %x1)", "aten.bitwise_not(%x0)",
        "aten.eq.Tensor(%x0, %x1)", "aten.where.self(%x0, %x2, %x3)", "aten.where.self(%x0, %x2, 0.5)",
        "aten.mul.Tensor(%x2, %x0)", "aten._to_copy(%x0, dtype=f32)", "aten.lt.Tensor(%x0, %x1)"}) {
    check_op(call, x);
  }
}

TEST(Native, TypePromotion) {
  const at::Tensor zero_dim = at::tensor(0.1, at::kDouble);
  const std::vector<at::Tensor> x{at::randn({65}).to(at::kBFloat16), at::randn({65}), zero_dim, at::arange(65),
                                  zero_dim.to(at::kFloat)};
  for (const char* call : {"aten.add.Tensor(%x0, %x1)", "aten.add.Tensor(%x0, %x2)", "aten.mul.Tensor(%x0, %x4)",
                           "aten.mul.Tensor(%x3, %x1)", "aten.div.Tensor(%x3, 7)", "aten.gt.Tensor(%x3, %x1)",
                           "aten.lt.Tensor(%x0, %x2)", "aten.where.self(%x5, %x0, %x1)"}) {
    std::vector<at::Tensor> inputs = x;
    inputs.push_back(at::rand({65}).gt(0.5));
    check_op(call, inputs);
  }
}

TEST(Native, ShapesThatDoNotFillVectors) {
  for (int64_t n : {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 100}) {
    check_op("aten.mul.Tensor(%x0, %x1)", {at::randn({n}), at::randn({n})});
    check_op("aten.mul.Tensor(%x0, %x1)", {at::randn({3, n}), at::randn({n})});
    check_op("aten.add.Tensor(%x0, %x1)", {at::randn({n, 5}), at::randn({n, 1})});
  }
  check_op("aten.exp(%x0)", {at::randn({})}, {2});
  check_op("aten.add.Tensor(%x0, %x1)", {at::randn({2, 0, 3}), at::randn({3})});
}

TEST(Native, Layouts) {
  const at::Tensor base = at::randn({6, 7, 8, 9});
  const std::vector<std::vector<at::Tensor>> pairs = {
      {base.permute({0, 2, 3, 1}), base.permute({0, 2, 3, 1})},  // channels last
      {base.permute({3, 2, 1, 0}), base.permute({3, 2, 1, 0}).contiguous()},
      {base.select(1, 3), base.slice(1, 2, 3).squeeze(1)},
      {base.slice(3, 1, 9, 3), base.slice(3, 0, 9, 3)},
      {at::randn({6, 1, 8, 1}).expand({6, 7, 8, 9}), base},
      {at::randn({9}), base},
      {base.transpose(0, 3), at::randn({1, 1, 1, 6})},
  };
  for (const auto& pair : pairs) check_op("aten.add.Tensor(%x0, %x1)", pair);
  for (at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble, at::kByte}) {
    const at::Tensor matrix = (at::rand({37, 23}) * 100).to(type);
    check_op("aten.maximum(%x0, %x1)", {matrix.t(), matrix.t().contiguous()});
  }
}

TEST(Native, LargeTensorsOnSeveralThreads) {
  const std::vector<at::Tensor> x{at::randn({517, 1031}), at::randn({1031})};
  check_op("aten.add.Tensor(%x0, %x1)", x);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  check_op("aten.mul.Tensor(%x0, %x1)", x);
  at::set_num_threads(threads);
}

TEST(Native, ViewsAreIndexMaps) {
  GraphText g({at::randn({6, 8}), at::randn({8, 6}), at::randn({48}), at::randn({2, 3, 8})});
  const std::string sum = g.line("aten.add.Tensor(%x0, 1)");
  const std::string turned = g.line(fmt::format("aten.t({})", sum));
  const std::string mixed = g.line(fmt::format("aten.mul.Tensor({}, %x1)", turned));
  const std::string back = g.line(fmt::format("aten.t({})", mixed));
  const std::string flat = g.line(fmt::format("aten.view({}, [48])", sum));
  const std::string long_sum = g.line(fmt::format("aten.sub.Tensor({}, %x2)", flat));
  const std::string split = g.line(fmt::format("aten.view({}, [2, 3, 8])", long_sum));
  const std::string last = g.line(fmt::format("aten.mul.Tensor({}, %x3)", split));
  const std::string result = g.line(fmt::format("aten.exp({})", last));
  const std::string text = g.text(result + ", " + back);
  check(text, g.inputs, 5, {2});
  // One kernel: the views cost nothing. What leaves it transposed is a view made by ATen.
  const std::vector<FusedGroup> groups = fuse(parse_graph(text));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].outputs.size(), 2u);
}

TEST(Native, AValueReadAtTwoPointsIsStored) {
  GraphText g({at::randn({5, 5})});
  const std::string a = g.line("aten.mul.Tensor(%x0, 3)");
  const std::string b = g.line(fmt::format("aten.t({})", a));
  const std::string c = g.line(fmt::format("aten.add.Tensor({}, {})", a, b));
  check(g.text(c), g.inputs, 2);
  FuseOptions options;
  options.smallest_group = 1;
  EXPECT_EQ(fuse(parse_graph(g.text(c)), options).size(), 2u);
}

TEST(Native, WhatTakesLittleIsComputedAgain) {
  GraphText g({at::randn({40, 30}), at::randn({30})});
  const std::string product = g.line("aten.mul.Tensor(%x0, %x1)");
  const std::string columns = g.line(fmt::format("aten.sum.dim_IntList({}, [0])", product));
  const std::string rows = g.line(fmt::format("aten.amax({}, [1])", product));
  check(g.text(columns + ", " + rows), g.inputs, 3, {8, 1e-5});
  const std::vector<FusedGroup> groups = fuse(parse_graph(g.text(columns + ", " + rows)));
  ASSERT_EQ(groups.size(), 2u);
  for (const FusedGroup& group : groups) {
    EXPECT_EQ(group.inputs.size(), 2u);
    EXPECT_EQ(group.outputs.size(), 1u);  // the product is nobody's
  }
  // A result is in memory anyway, and an exponential would cost more than memory.
  EXPECT_EQ(fuse(parse_graph(g.text(columns + ", " + rows + ", " + product)))[1].inputs.size(), 1u);
  const std::string power = g.line("aten.exp(%x0)");
  const std::string sums = g.line(fmt::format("aten.sum.dim_IntList({}, [0])", power));
  const std::string largest = g.line(fmt::format("aten.amax({}, [1])", power));
  EXPECT_EQ(fuse(parse_graph(g.text(sums + ", " + largest)))[0].outputs.size(), 2u);
}

TEST(Native, NoPathLeavesAKernelAndComesBack) {
  GraphText g({at::randn({4, 4})});
  const std::string a = g.line("aten.exp(%x0)");
  const std::string b = g.line(fmt::format("aten.mm({}, {})", a, a));
  const std::string c = g.line(fmt::format("aten.add.Tensor({}, {})", a, b));
  const std::string d = g.line(fmt::format("aten.mul.Tensor({}, 2)", a));
  const std::string e = g.line(fmt::format("aten.relu({})", c));
  check(g.text(e + ", " + d), g.inputs, 4, {2, 1e-4});
  const std::vector<FusedGroup> groups = fuse(parse_graph(g.text(e + ", " + d)));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].nodes.size(), 2u);  // exp and mul, although add stands between them
}

TEST(Native, SiblingsShareTheirLoads) {
  GraphText g({at::randn({40, 30})});
  const std::string sine = g.line("aten.sin(%x0)"), cosine = g.line("aten.cos(%x0)");
  const std::string text = g.text(sine + ", " + cosine);
  check(text, g.inputs, 2, {2});
  const std::vector<FusedGroup> groups = fuse(parse_graph(text));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].inputs.size(), 1u);
  EXPECT_EQ(groups[0].kernel.str(),
            "loops [1200] (#0 f32, #1 f32, #2 f32) {\n"
            "  %0 = load f32 #0 {1}\n"
            "  %1 = sin f32 %0\n"
            "  %2 = cos f32 %0\n"
            "  store #1 {1} = %1\n"
            "  store #2 {1} = %2\n"
            "}\n");
}

TEST(Native, ConstantsNeedNoMemory) {
  GraphText g({at::randn({4, 6})});
  const std::string full = g.line("aten.full([6], 0.25)");
  const std::string zeros = g.line("aten.zeros_like(%x0)");
  const std::string sum = g.line(fmt::format("aten.add.Tensor(%x0, {})", full));
  const std::string result = g.line(fmt::format("aten.maximum({}, {})", sum, zeros));
  check(g.text(result), g.inputs, 2);
  const std::vector<FusedGroup> groups = fuse(parse_graph(g.text(result)));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].inputs.size(), 1u);
}

TEST(Native, EqualKernelsAreCompiledOnce) {
  GraphText g({at::randn({11, 13})});
  std::string x = "%x0";
  for (int layer = 0; layer < 4; ++layer) {
    x = g.line(fmt::format("aten.mul.Tensor({}, 1.7)", x));
    x = g.line(fmt::format("aten.add.Tensor({}, 0.7)", x));
    x = g.line(fmt::format("aten.flip({}, [0])", x));
  }
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  ProgramOptions options;
  options.native = true;
  reset_kernel_counters();
  Program program(parse_graph(g.text(x)), options);
  EXPECT_EQ(kernel_counters().compiled, 1u);
  EXPECT_EQ(kernel_counters().shared, 3u);
  EXPECT_EQ(program.each_run().kernels, 4u);
  EXPECT_EQ(program.each_run().aten_ops, 4u);
}

TEST(Native, RandomOperatorsKeepTheirOrder) {
  GraphText g({at::randn({64})});
  const std::string a = g.line("aten.mul.Tensor(%x0, 2)");
  const std::string first = g.line(fmt::format("aten.bernoulli.p({}, 0.5)", a));
  const std::string second = g.line("aten.bernoulli.p(%x0, 0.5)");
  const std::string sum = g.line(fmt::format("aten.add.Tensor({}, {})", second, a));
  const Graph graph = parse_graph(g.text(first + ", " + sum));
  ProgramOptions options;
  options.native = true;
  at::manual_seed(3);
  const auto wanted = Program(graph).run(g.inputs);
  at::manual_seed(3);
  const auto got = Program(graph, options).run(g.inputs);
  EXPECT_TRUE(got[0].equal(wanted[0]));
  EXPECT_TRUE(got[1].equal(wanted[1]));
}

TEST(Native, InputsInAnotherLayoutAreCopied) {
  GraphText g({at::randn({4, 6})});
  const std::string text = g.text(g.line("aten.exp(%x0)"));
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  ProgramOptions options;
  options.native = true;
  options.fuse.smallest_group = 1;
  const at::Tensor turned = at::randn({6, 4}).t();
  const at::Tensor got = Program(parse_graph(text), options).run({turned})[0];
  EXPECT_TRUE(at::allclose(got, turned.exp()));
}

// Graphs of exact pointwise operators, views of all kinds, reductions and products, put together at random.
TEST(Native, RandomGraphs) {
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  std::mt19937 random(11);
  size_t native_ops = 0, kernels = 0;
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 150; ++round) {
    // Whole numbers: sums are exact in any order.
    auto whole = [](at::IntArrayRef sizes) { return at::randint(-3, 4, sizes, at::kFloat); };
    GraphText g({whole({4, 6}), whole({6, 4}), whole({4, 1}), whole({6})});
    std::vector<std::string> names{"%x0", "%x1", "%x2", "%x3"};
    const std::vector<std::string> forms = {"aten.mul.Tensor({0}, 0.5)",
                                            "aten.neg({0})",
                                            "aten.relu({0})",
                                            "aten.abs({0})",
                                            "aten.add.Tensor({0}, {1})",
                                            "aten.sub.Tensor({0}, {1})",
                                            "aten.maximum({0}, {1})",
                                            "aten.mul.Tensor({0}, {1})",
                                            "aten.unsqueeze({0}, 0)",
                                            "aten.view({0}, [-1])",
                                            "aten.clone({0})",
                                            "aten.t({0})",
                                            "aten.view({0}, [2, -1])",
                                            "aten.view({0}, [-1, 3, 2])",
                                            "aten.sum({0})",
                                            "aten.sum.dim_IntList({0}, [-1], keepdim=True)",
                                            "aten.sum.dim_IntList({0}, [0])",
                                            "aten.amax({0}, [-1], keepdim=True)",
                                            "aten.amin({0}, [0, -1])",
                                            "aten.slice.Tensor({0}, 0, 1)",
                                            "aten.select.int({0}, 0, -1)",
                                            "aten.expand({0}, [2, 4, 6])",
                                            "aten.mm({0}, {1})",
                                            "aten.transpose.int({0}, 0, -1)",
                                            "aten.gt.Tensor({0}, {1})",
                                            "aten.flip({0}, [0])"};
    for (int line = 0; line < 16; ++line) {
      const std::string call =
          fmt::format(fmt::runtime(forms[below(forms.size())]), names[below(names.size())], names[below(names.size())]);
      try {
        names.push_back(g.line(call));
      } catch (const std::exception&) {
        continue;  // shapes that do not fit
      }
    }
    // Several results; some values have no reader.
    std::string results = names.back();
    for (int i = 0; i < 3; ++i) results += ", " + names[4 + below(names.size() - 4)];
    const Graph graph = parse_graph(g.text(results));
    const std::vector<at::Tensor> wanted = Program(graph).run(g.inputs);
    for (size_t smallest : {1, 2}) {
      ProgramOptions options;
      options.native = true;
      options.fuse.smallest_group = smallest;
      const Program program(graph, options);
      const std::vector<at::Tensor> got = program.run(g.inputs);
      for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], wanted[i], {}, graph.str());
      native_ops += program.each_run().native_ops;
      kernels += program.each_run().kernels;
    }
  }
  EXPECT_GT(kernels, 100u);
  EXPECT_GT(native_ops, kernels + kernels / 4);  // they do fuse
}

TEST(Native, UnsupportedStaysWithAten) {
  const std::vector<at::Tensor> x{at::randn({9}), at::randint(1, 9, {9}), at::complex(at::randn({9}), at::randn({9}))};
  for (const char* call :
       {"aten.pow.Tensor_Scalar(%x0, 2.5)", "aten.div.Tensor_mode(%x1, %x1, rounding_mode=\"floor\")",
        "aten.mul.Tensor(%x2, 2)", "aten.logcumsumexp(%x0, 0)", "aten.sum(%x2)", "aten.clamp(%x0, nan)"}) {
    GraphText g(x);
    const std::string result = g.line(call);
    check(g.text(result), x, 0);
  }
}

TEST(Native, UnknownTargetIsRefused) {
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  TargetScope scope("neon");
  GraphText g({at::randn({9})});
  ProgramOptions options;
  options.native = true;
  options.fuse.smallest_group = 1;
  const Graph graph = parse_graph(g.text(g.line("aten.exp(%x0)")));
  EXPECT_ANY_THROW(Program(graph, options));
}
