// firesteel::compile in native code: from the first call where asked, later where not, and not at all.
#include "like_eager.h"

#include <chrono>
#include <thread>

#include "codegen/background.h"
#include "runtime/frozen_weights.h"
#include "runtime/run_counters.h"

namespace {

using at::Tensor;

Tensor program(const Tensor& x) { return (x * 3 + 1).tanh() * x; }

// How many kernels one call on fresh values runs; its result is checked.
template <class F>
uint64_t kernels_of(const F& compiled) {
  firesteel::reset_run_counters();
  const Tensor x = at::randn({5, 3});
  EXPECT_TRUE(at::allclose(compiled(x), program(x), 1e-5, 1e-6));
  return firesteel::run_counters().kernels;
}

class Tiers : public testing::Test {
 protected:
  void SetUp() override {
    if (!firesteel::can_compile_kernels()) GTEST_SKIP() << "built without LLVM";
    firesteel::forget_kernels();
    firesteel::hold_background_compiler(true);
  }
  void TearDown() override { firesteel::hold_background_compiler(false); }
};

TEST_F(Tiers, TheProcessMayEndWhileItsFirstKernelsAreMade) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process each, in which LLVM has done nothing yet
  for (int delay = 0; delay < 24; ++delay) {
    EXPECT_EXIT(
        {
          firesteel::hold_background_compiler(false);
          firesteel::compile(program)(at::randn({5, 3}));
          std::this_thread::sleep_for(std::chrono::milliseconds(delay / 2));
          std::exit(0);
        },
        testing::ExitedWithCode(0), "");
  }
}

TEST_F(Tiers, WaitingGivesNativeCodeAtOnce) {
  firesteel::CompileOptions options;
  options.wait = true;
  EXPECT_EQ(kernels_of(firesteel::compile(program, options)), 1u);
}

TEST_F(Tiers, OtherwiseItArrivesLater) {
  auto compiled = firesteel::compile(program);
  EXPECT_EQ(kernels_of(compiled), 0u);
  firesteel::hold_background_compiler(false);
  for (int i = 0; i < 12000 && kernels_of(compiled) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(kernels_of(compiled), 1u);
}

TEST_F(Tiers, OrNever) {
  firesteel::CompileOptions options;
  options.native = false;
  options.wait = true;
  EXPECT_EQ(kernels_of(firesteel::compile(program, options)), 0u);
}

TEST_F(Tiers, FrozenWeightsArePreparedOnce) {
  firesteel::CompileOptions options;
  options.wait = options.freeze = true;
  const Tensor weight = at::randn({200, 130});
  auto layer = [&](const Tensor& x) { return at::gelu(at::linear(x, weight)); };
  auto compiled = firesteel::compile(layer, options);
  firesteel::reset_run_counters();
  for (int call = 1; call <= 4; ++call) {
    const Tensor x = at::randn({96, 130});
    EXPECT_TRUE(at::allclose(compiled(x), layer(x), 1e-4, 1e-5));
    EXPECT_EQ(firesteel::frozen_counters().runs, static_cast<uint64_t>(call));
    EXPECT_EQ(firesteel::frozen_counters().preparations, call <= 2 ? 1u : 2u);
    if (call == 2) weight.mul_(2);
  }
}

TEST_F(Tiers, AJobWithoutKernelsIsDone) { EXPECT_TRUE(firesteel::compile_in_background({})->done()); }

}  // namespace
