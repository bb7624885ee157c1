// Kernels for sizes that a graph leaves open: one text for all of them, and results of any size against ATen.
#include "native_graphs.h"

using namespace firesteel;
using namespace firesteel::testing_native;

namespace {

// The mean along rows of x[768, a] + y[768, a]
std::string mean(const std::string& a) {
  const std::string type = "f32[768, " + a + "]";
  return "graph test(%x: " + type + ", %y: " + type + ") {\n  %z: " + type +
         " = aten.add.Tensor(%x, %y)\n  %m: f32[768] = aten.mean.dim(%z, [1])\n  return %m\n}\n";
}

TEST(OpenKernels, TextNamesWhatIsGivenByItsPlace) {
  const std::vector<FusedGroup> groups = fuse(parse_graph(mean("s0")));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].kernel.str(),
            "loops [768 | n0] (#0 f32, #1 f32, #2 f32) {\n"
            "  %0 = load f32 #0 {n0, 1}\n"
            "  %1 = load f32 #1 {n0, 1}\n"
            "  %2 = add f32 %0, %1\n"
            "  %3 = size i64 n0\n"
            "  %4 = cast f32 %3\n"
            "  %5 = row_sum f32 %2\n"
            "  %6 = div f32 %5, %4\n"
            "  store row #2 {1, 0} = %6\n"
            "}\n");
  EXPECT_EQ(groups[0].kernel.given, std::vector{Dim::symbol("s0")});
  EXPECT_EQ(fuse(parse_graph(mean("s7")))[0].kernel.str(), groups[0].kernel.str());
}

// Sizes that may be equal and may not are no reason to repeat an operand.
TEST(OpenKernels, WhatIsNotPlainlyBroadcastStaysWithAten) {
  const char* text =
      "graph test(%x: f32[s0, 8], %y: f32[s1, 8]) {\n"
      "  %a: f32[s0, 8] = aten.add.Tensor(%x, %y)\n  %b: f32[s0, 8] = aten.sin(%a)\n"
      "  %c: f32[s0, 8] = aten.cos(%b)\n  return %c\n}\n";
  const std::vector<FusedGroup> groups = fuse(parse_graph(text));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].nodes.size(), 2u);
}

TEST(OpenKernels, EveryTargetRunsEverySize) {
  const Graph graph = parse_graph(
      "graph test(%x: f32[s0, s1], %y: f32[s0, s1; 1, s0]) {\n"
      "  %a: f32[s0, s1] = aten.mul.Tensor(%x, %y)\n  %b: f32[s0, s1] = aten.exp(%a)\n"
      "  %c: f32[s1] = aten.sum.dim_IntList(%b, [0])\n  %d: f32[s0] = aten.amax(%b, [1])\n"
      "  %e: f32[s0, s1] = aten._softmax(%a, -1, False)\n  %f: f32[] = aten.mean(%b)\n"
      "  return %b, %c, %d, %e, %f\n}\n");
  for (const char* target : kTargets) {
    const TargetScope scope(target);
    ProgramOptions options;
    options.native = true;
    const Program native(graph, options), aten(graph);
    EXPECT_GT(native.each_run().open_kernels, 0u);
    EXPECT_EQ(native.each_run().aten_ops, 0u);
    for (int64_t rows : {1, 2, 3, 7, 16, 33, 600}) {
      for (int64_t columns : {1, 2, 8, 15, 16, 17, 131, 1000}) {
        const std::vector<at::Tensor> inputs{at::randn({rows, columns}), at::randn({columns, rows}).t()};
        const std::vector<int64_t> symbols{rows, columns};
        ASSERT_TRUE(native.fits(symbols));
        const std::vector<at::Tensor> found = native.run(inputs, symbols), wanted = aten.run(inputs, symbols);
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-5, 1e-5))
              << target << " " << rows << " " << columns << " " << i;
      }
    }
    EXPECT_FALSE(native.fits(std::vector<int64_t>{0, 5}));
    EXPECT_FALSE(native.fits(std::vector<int64_t>{int64_t{1} << 20, int64_t{1} << 20}));
  }
}

}  // namespace
