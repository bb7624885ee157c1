// How exact the kernels' functions are: over all float32 exponents, against double precision, beside ATen's own
// results. Prints the table of docs/native.md.
#include "native_graphs.h"

using namespace firesteel;
using namespace firesteel::testing_native;

namespace {

struct Function {
  const char* call;
  int64_t ulp;             // the most that is allowed
  bool overflows = false;  // e^-x is infinite far left: there ATen's formula decides
};
constexpr Function kFunctions[] = {{"aten.exp(%x0)", 1},           {"aten.log(%x0)", 1},        {"aten.sin(%x0)", 2},
                                   {"aten.cos(%x0)", 2},           {"aten.tanh(%x0)", 2},       {"aten.erf(%x0)", 2},
                                   {"aten.sigmoid(%x0)", 3, true}, {"aten.silu(%x0)", 3, true}, {"aten.rsqrt(%x0)", 1},
                                   {"aten.sqrt(%x0)", 0}};

// Every 1021st float32: both signs, denormals, infinities and NaNs among them.
at::Tensor many_floats() { return at::arange(-2147483648LL, 2147483647LL, 1021).to(at::kInt).view(at::kFloat); }

at::Tensor run(const std::string& text, const at::Tensor& x, bool native) {
  ProgramOptions options;
  options.native = native;
  options.fuse.smallest_group = 1;
  return Program(parse_graph(text), options).run({x})[0];
}

int64_t worst(const at::Tensor& a, const at::Tensor& b) { return ulp_distance(a, b).max().item<int64_t>(); }

}  // namespace

TEST(NativeMath, Float32) {
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  const at::Tensor x = many_floats();
  std::printf("%-20s %8s %8s %8s %12s %12s\n", "function", "sse", "avx2", "avx512", "ATen", "avx512-ATen");
  for (const Function& function : kFunctions) {
    GraphText single({x}), wide({x.to(at::kDouble)});
    const std::string single_text = single.text(single.line(function.call)),
                      wide_text = wide.text(wide.line(function.call));
    at::Tensor exact = run(wide_text, x.to(at::kDouble), false).to(at::kFloat), aten = run(single_text, x, false);
    if (function.overflows) exact = at::where(x.lt(-87), aten, exact);
    std::printf("%-20s", function.call);
    at::Tensor last;
    for (const char* target : kTargets) {
      TargetScope scope(target);
      last = run(single_text, x, true);
      const int64_t ulp = worst(last, exact);
      std::printf(" %8ld", ulp);
      EXPECT_LE(ulp, function.ulp) << function.call << " on " << target;
    }
    std::printf(" %12ld %12ld\n", worst(aten, exact), worst(last, aten));
  }
}

TEST(NativeMath, Float64) {
  if (!can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
  const at::Tensor x = at::cat({at::randn({100003}, at::kDouble) * 30, at::randn({1000}, at::kDouble) * 1e6});
  for (const Function& function : kFunctions) {
    GraphText g({x});
    const std::string text = g.text(g.line(function.call));
    const at::Tensor aten = run(text, x, false);
    std::printf("%-20s", function.call);
    for (const char* target : kTargets) {
      TargetScope scope(target);
      const int64_t ulp = worst(run(text, x, true), aten);
      std::printf(" %8ld", ulp);
      EXPECT_LE(ulp, 4) << function.call << " on " << target;
    }
    std::printf("\n");
  }
}
