// The C++ blocks of docs/cpp.md, as they stand: they compile, and do what the page says.
#include <torch/torch.h>

#include "firesteel/firesteel.h"
#include "page/block_0.inc"
#include "page/block_1.inc"

namespace {

int g_checks = 0;
void check_values(const torch::Tensor& x) {
  ++g_checks;
  ASSERT_TRUE(at::isfinite(x).all().item<bool>());
}

TEST(Page, TheFirstProgramTrainsAndPrintsItsGraphs) {
  testing::internal::CaptureStdout();
  page_program();
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find("aten.tanh"), std::string::npos) << printed;
  EXPECT_NE(printed.find("aten.relu"), std::string::npos) << printed;
  EXPECT_NE(printed.find("aten.threshold_backward"), std::string::npos) << printed;
}

TEST(Page, AStructThatNamesItsMembersIsAnArgument) {
  auto sum = firesteel::compile([](Batch batch) { return batch.images.sum() + batch.labels.at(1).sum(); });
  for (int i = 0; i < 2; ++i) {
    const Batch batch{torch::randn({3}), {torch::randn({2}), torch::randn({4})}};
    EXPECT_TRUE(at::allclose(sum(batch), batch.images.sum() + batch.labels[1].sum()));
  }
  EXPECT_EQ(sum.graphs().size(), 1u);
}

TEST(Page, StateIsPartOfTheSignature) {
  torch::nn::Dropout net(0.5);
  auto forward = [net](torch::Tensor x) mutable { return net->forward(x); };
  auto compiled =
#include "page/block_2.inc"
      const torch::Tensor x = torch::ones({1000});
  EXPECT_FALSE(at::equal(compiled(x), x));
  net->eval();
  EXPECT_TRUE(at::equal(compiled(x), x));
  EXPECT_EQ(compiled.graphs().size(), 2u);
}

TEST(Page, Controls) {
#include "page/block_3.inc"
  const torch::Tensor x = torch::randn({3, 3}), deep = torch::randn({2, 2, 2});
  EXPECT_TRUE(at::allclose(step(x), (x / x.norm()).sin()));
  EXPECT_EQ(g_checks, 0);
  EXPECT_NE(step.graphs().at(0).str().find("normalise"), std::string::npos);
  EXPECT_TRUE(at::allclose(step(deep), (deep / deep.norm()).sin()));
  EXPECT_EQ(g_checks, 1);
  EXPECT_EQ(step.breaks().size(), 1u);

  auto encoder = [](torch::Tensor input) { return input.sin() * 2; };
  auto decoder = [](torch::Tensor code) { return code.cos() + 1; };
#include "page/block_4.inc"
  testing::internal::CaptureStdout();
  EXPECT_TRUE(at::allclose(whole(x), (x.sin() * 2).cos() + 1));
  EXPECT_FALSE(testing::internal::GetCapturedStdout().empty());
  EXPECT_EQ(encode.graphs().size() + decode.graphs().size(), 2u);
}

}  // namespace
