// Seeds torch's generator before the tests: a C++ process gets a different seed every time otherwise.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace {

struct Seeded : ::testing::Environment {
  void SetUp() override { at::manual_seed(0); }
};

const auto* g_seeded = ::testing::AddGlobalTestEnvironment(new Seeded);

}  // namespace
