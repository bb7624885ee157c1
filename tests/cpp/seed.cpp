// Before the tests: seeds torch's generator, which a C++ process seeds anew every time, and turns the cache off.
#include <cstdlib>

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace {

struct Seeded : ::testing::Environment {
  void SetUp() override {
    at::manual_seed(0);
    setenv("FIRESTEEL_CACHE", "0", /*overwrite=*/1);  // every kernel is made here
  }
};

const auto* g_seeded = ::testing::AddGlobalTestEnvironment(new Seeded);

}  // namespace
