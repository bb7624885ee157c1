// Programs over sizes: the same answers as evaluating the expressions, one step for what is asked twice.
#include <algorithm>
#include <random>

#include "firesteel/error.h"
#include "shapes/program.h"

namespace firesteel {
namespace {

const std::vector<std::string> kSymbols = {"s0", "s1", "s2"};
const Dim kS0 = Dim::symbol("s0");
const Dim kS1 = Dim::symbol("s1");
const Dim kS2 = Dim::symbol("s2");

Dim mod(const Dim& a, const Dim& b) { return Dim::make(DimOp::Mod, a, b); }
Dim div(const Dim& a, const Dim& b) { return Dim::make(DimOp::FloorDiv, a, b); }

TEST(SizeProgram, FindsTheFirstThatFails) {
  std::vector<Relation> relations = {
      Relation::ge(kS0, 2),         Relation::eq(mod(kS0, 8), 0),
      Relation::known(true),        Relation::all({Relation::lt(kS0, kS1), Relation::lt(kS1, kS2)}),
      Relation::ne(kS0 * kS1, 128), Relation::any({Relation::eq(kS2, 64), Relation::gt(kS2, 100)}),
  };
  RelationProgram program(relations, kSymbols);
  auto run = [&](int64_t s0, int64_t s1, int64_t s2) {
    int64_t values[] = {s0, s1, s2};
    return program.run(values);
  };
  EXPECT_EQ(run(8, 9, 64), -1);
  EXPECT_EQ(run(8, 9, 101), -1);
  EXPECT_EQ(run(1, 9, 64), 0);
  EXPECT_EQ(run(9, 10, 64), 1);
  EXPECT_EQ(run(8, 8, 64), 3);
  EXPECT_EQ(run(8, 70, 64), 3);
  EXPECT_EQ(run(8, 16, 64), 4);
  EXPECT_EQ(run(8, 9, 99), 5);
  EXPECT_EQ(RelationProgram(std::vector<Relation>{}, {}).run(nullptr), -1);
  EXPECT_EQ(RelationProgram(std::vector{Relation::known(true), Relation::known(false)}, {}).run(nullptr), 1);
}

TEST(SizeProgram, ComputesWhatIsSharedOnce) {
  Dim product = kS0 * kS1;
  std::vector<Relation> relations = {Relation::gt(product, 4), Relation::eq(mod(product, 4), 0),
                                     Relation::gt(product, 4),
                                     Relation::any({Relation::gt(product, 4), Relation::eq(kS2, 3)})};
  EXPECT_EQ(RelationProgram(relations, kSymbols).size(), 6u);  // product, >, %, ==, ==, or
  std::vector<Dim> dims = {product, product * 4, kS2, 7, product};
  DimProgram program(dims, kSymbols);
  EXPECT_EQ(program.size(), 3u);  // the product, four times it, 7
  int64_t values[] = {2, 3, 5};
  int64_t results[5];
  ASSERT_TRUE(program.run(values, results));
  EXPECT_EQ(std::vector<int64_t>(results, results + 5), (std::vector<int64_t>{6, 24, 5, 7, 6}));
}

// A relation that an earlier `or` contains is still checked for itself.
TEST(SizeProgram, APartOfAnOrIsCheckedForItself) {
  Relation small = Relation::lt(kS0, kS1);
  RelationProgram program(std::vector{Relation::any({small, Relation::eq(kS2, 3)}), small}, kSymbols);
  int64_t values[] = {9, 8, 3};
  EXPECT_EQ(program.run(values), 1);
  values[2] = 4;
  EXPECT_EQ(program.run(values), 0);
}

TEST(SizeProgram, WhatHasNoValueFails) {
  int64_t large[] = {INT64_MAX, INT64_MAX, 0};
  EXPECT_EQ(RelationProgram(std::vector{Relation::ne(kS0 + kS1, 3)}, kSymbols).run(large), 0);
  EXPECT_EQ(RelationProgram(std::vector{Relation::ge(kS0 * kS1, 0)}, kSymbols).run(large), 0);
  EXPECT_EQ(RelationProgram(std::vector{Relation::ge(mod(kS0, kS2), 0)}, kSymbols).run(large), 0);
  EXPECT_EQ(RelationProgram(std::vector{Relation::ne(div(kS0, kS2), 1)}, kSymbols).run(large), 0);
  Relation either = Relation::any({Relation::ge(kS0 * kS1, 0), Relation::eq(kS2, 0)});
  EXPECT_EQ(RelationProgram(std::vector{either}, kSymbols).run(large), -1);
  int64_t results[2];
  EXPECT_FALSE(DimProgram(std::vector<Dim>{kS0, kS0 * kS1 + 1}, kSymbols).run(large, results));
  EXPECT_TRUE(DimProgram(std::vector<Dim>{kS0, kS0 + -1}, kSymbols).run(large, results));
  EXPECT_EQ(results[1], INT64_MAX - 1);
}

TEST(SizeProgram, ASymbolWithoutAValueIsRefused) {
  EXPECT_THROW(RelationProgram(std::vector{Relation::eq(Dim::symbol("u0"), 1)}, kSymbols), InternalError);
}

TEST(SizeProgram, LongProgramsRunToo) {
  std::vector<Relation> relations;
  for (int64_t i = 0; i < 500; i++) relations.push_back(Relation::ne(mod(kS0 + i, kS1 + i + 1), 1000));
  relations.push_back(Relation::eq(kS2, 3));
  RelationProgram program(relations, kSymbols);
  int64_t values[] = {10, 20, 4};
  EXPECT_EQ(program.run(values), 500);
  values[2] = 3;
  EXPECT_EQ(program.run(values), -1);
}

class RandomPrograms : public testing::Test {
 protected:
  int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  Dim dim(int depth) {
    const Dim symbols[] = {kS0, kS1, kS2};
    if (depth == 0) return number(0, 3) == 0 ? Dim(number(-3, 8)) : symbols[number(0, 2)];
    const DimOp ops[] = {DimOp::Add, DimOp::Mul, DimOp::FloorDiv, DimOp::Mod, DimOp::Min, DimOp::Max};
    Dim lhs = dim(depth - 1);
    return Dim::make(ops[number(0, 5)], lhs, dim(depth - 1));
  }

  Relation relation() {
    if (number(0, 3) == 0) {
      Relation one = relation();
      std::vector<Relation> both = {one, relation()};
      return number(0, 1) == 0 ? Relation::all(both) : Relation::any(both);
    }
    Dim lhs = dim(2);
    Relation less = number(0, 1) == 0 ? Relation::lt(lhs, dim(2)) : Relation::eq(lhs, dim(1));
    return number(0, 1) == 0 ? less : less.negated();
  }

  std::mt19937_64 random_{20250202};
};

TEST_F(RandomPrograms, AgreeWithEvaluation) {
  // None that gives INT64_MIN exactly, which programs take for no value.
  const int64_t special[] = {0, 1, -1, 2, 7, 64, (int64_t{1} << 31) + 1, (int64_t{1} << 61) + 1, INT64_MAX - 1000};
  int passed = 0;
  for (int round = 0; round < 2000; round++) {
    std::vector<Relation> relations = {relation(), relation()};
    std::vector<Dim> dims = {dim(2), dim(3)};
    RelationProgram checks(relations, kSymbols);
    DimProgram sizes(dims, kSymbols);
    for (int i = 0; i < 20; i++) {
      int64_t values[3];
      for (int64_t& value : values) value = number(0, 1) == 0 ? special[number(0, 8)] : number(-4, 12);
      auto lookup = [&](std::string_view name) { return std::optional(values[name[1] - '0']); };
      auto fails =
          std::find_if(relations.begin(), relations.end(), [&](auto& one) { return one.evaluate(lookup) != true; });
      int expected = fails == relations.end() ? -1 : static_cast<int>(fails - relations.begin());
      ASSERT_EQ(checks.run(values), expected) << relations[0].str() << "; " << relations[1].str();
      passed += expected == -1;
      int64_t results[2];
      bool have_values = sizes.run(values, results);
      auto first = dims[0].evaluate(lookup);
      auto second = dims[1].evaluate(lookup);
      ASSERT_EQ(have_values, first && second) << dims[0].str() << "; " << dims[1].str();
      ASSERT_TRUE(!have_values || (results[0] == *first && results[1] == *second)) << dims[1].str();
    }
  }
  EXPECT_GT(passed, 2000);
}

}  // namespace
}  // namespace firesteel
