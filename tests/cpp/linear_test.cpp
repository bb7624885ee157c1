// Relations of sizes that ranges leave open and the solver decides; problems that end it and not the process.
#include "shapes/linear.h"
#include "shapes/facts.h"

namespace firesteel {
namespace {

const Dim kS0 = Dim::symbol("s0");
const Dim kS1 = Dim::symbol("s1");
const Dim kS2 = Dim::symbol("s2");

Dim div(const Dim& a, const Dim& b) { return Dim::make(DimOp::FloorDiv, a, b); }
Dim mod(const Dim& a, const Dim& b) { return Dim::make(DimOp::Mod, a, b); }
Dim max(const Dim& a, const Dim& b) { return Dim::make(DimOp::Max, a, b); }

class Solver : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_linear_solver()) GTEST_SKIP() << "built without isl";
    for (const char* name : {"s0", "s1", "s2"}) facts_.add_symbol(name, 2, INT64_MAX);
  }
  Facts facts_;
};

TEST_F(Solver, DecidesDivisions) {
  EXPECT_EQ(facts_.decide(Relation::le(div(kS0, 2) + div(kS1, 2), div(kS0 + kS1, 2))), true);
  // Chunks of 3 that cover s0: the last is not empty and not too long.
  Dim chunks = div(kS0 + 2, 3);
  EXPECT_EQ(facts_.decide(Relation::gt(kS0 + (chunks + -1) * -3, 0)), true);
  EXPECT_EQ(facts_.decide(Relation::gt(kS0 + (chunks + -1) * -3, 3)), false);
  // Stride-2 convolutions of an even length, padded by one: half of it.
  facts_.assume(Relation::eq(mod(kS0, 2), 0));
  EXPECT_EQ(facts_.decide(Relation::eq(div(kS0 + -1, 2) + 1, div(kS0, 2))), true);
  facts_.assume(Relation::eq(mod(kS0, 3), 0));
  EXPECT_EQ(facts_.decide(Relation::eq(mod(kS0, 6), 0)), true);
  EXPECT_EQ(facts_.decide(Relation::eq(mod(kS0, 12), 0)), std::nullopt);
}

TEST_F(Solver, CombinesFacts) {
  facts_.assume(Relation::le(kS0 + kS1, 20));
  facts_.assume(Relation::le(kS1 + kS2, 20));
  facts_.assume(Relation::le(kS0 + kS2, 20));
  EXPECT_EQ(facts_.decide(Relation::le(kS0 + kS1 + kS2, 30)), true);
  EXPECT_EQ(facts_.decide(Relation::le(kS0 + kS1 + kS2, 29)), std::nullopt);
  EXPECT_EQ(facts_.decide(Relation::gt(max(kS0, kS1) + kS2, 20)), false);
  facts_.assume(Relation::eq(kS0 * 3, kS1 * 2));
  EXPECT_EQ(facts_.decide(Relation::eq(mod(kS0, 2), 0)), true);
  EXPECT_EQ(facts_.decide(Relation::any({Relation::lt(kS0, kS1), Relation::lt(kS1, 3)})), true);
}

// 12223*a + 12224*b + … is known for taking very long: the budget must end it.
TEST_F(Solver, HardProblemsEnd) {
  const int64_t factors[] = {12223, 12224, 36674, 61119, 85569};
  Dim sum = 0;
  for (int i = 0; i < 5; i++) {
    std::string name = "k" + std::to_string(i);
    facts_.add_symbol(name, 0, INT64_MAX);
    sum = sum + Dim::symbol(name) * factors[i];
  }
  EXPECT_NE(facts_.decide(Relation::eq(sum, 89643481)), true);
  Dim product = kS0;
  for (int i = 0; i < 6; i++) {
    product = product * kS1 + div(product, kS2 + i);
    facts_.assume(Relation::le(product, kS2 * (100 + i) + mod(kS0, i + 2)));
    EXPECT_NE(facts_.decide(Relation::eq(mod(product, 7), i)), true);
  }
}

TEST_F(Solver, LargeNumbersAreNoProblem) {
  facts_.add_symbol("top", INT64_MAX - 1, INT64_MAX);
  facts_.add_symbol("bottom", INT64_MIN, INT64_MIN + 1);
  facts_.assume(Relation::eq(mod(Dim::symbol("bottom"), INT64_MAX), 3));
  EXPECT_EQ(facts_.decide(Relation::lt(Dim::symbol("top"), kS0)), std::nullopt);
  EXPECT_NE(facts_.decide(Relation::lt(Dim::symbol("bottom") * 2, kS0 * 3 + Dim::symbol("top"))), false);
  LinearProblem problem;
  problem.variables = 2;
  problem.rows.push_back({{{0, INT64_MAX}, {1, INT64_MIN}}, INT64_MAX, true});
  problem.rows.push_back({{{0, 1}}, -1, false});
  EXPECT_FALSE(has_no_point(problem));  // a point exists, beyond 64 bits
  problem.rows.push_back({{{1, -2}}, -1, false});
  EXPECT_TRUE(has_no_point(problem));
  problem.choices.assign(3, {{}, {}});
  EXPECT_TRUE(has_no_point(problem));
  problem.choices.assign(30, {{}, {}});
  EXPECT_FALSE(has_no_point(problem)) << "too many cases to look at";
}

}  // namespace
}  // namespace firesteel
