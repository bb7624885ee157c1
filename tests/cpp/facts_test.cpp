// Facts about symbolic sizes: what must be decided.
#include "shapes/facts.h"
#include "shapes/redundant.h"

namespace firesteel {
namespace {

const Dim kS0 = Dim::symbol("s0");
const Dim kS1 = Dim::symbol("s1");
const Dim kS2 = Dim::symbol("s2");

Dim div(const Dim& a, const Dim& b) { return Dim::make(DimOp::FloorDiv, a, b); }
Dim mod(const Dim& a, const Dim& b) { return Dim::make(DimOp::Mod, a, b); }
Dim min(const Dim& a, const Dim& b) { return Dim::make(DimOp::Min, a, b); }
Dim max(const Dim& a, const Dim& b) { return Dim::make(DimOp::Max, a, b); }

// Sizes as most graphs have them: 0 and 1 are graphs of their own.
Facts sizes() {
  Facts facts;
  for (const char* name : {"s0", "s1", "s2"}) facts.add_symbol(name, 2, INT64_MAX);
  return facts;
}

TEST(Relation, TheSameQuestionIsOneRelation) {
  EXPECT_EQ(Relation::lt(kS0, kS1), Relation::le(kS0 + 1, kS1));
  EXPECT_EQ(Relation::eq(kS0 * 64, kS1 * 64), Relation::eq(kS1, kS0));
  EXPECT_EQ(Relation::eq(kS0 * 2 + 2, kS1 * 4), Relation::eq(kS1 * 2, kS0 + 1));
  EXPECT_EQ(Relation::le(kS0 * 8, 23), Relation::lt(kS0, 3));
  EXPECT_EQ(Relation::lt(kS0, kS1).negated(), Relation::le(kS1, kS0));
  EXPECT_EQ(Relation::eq(1, kS0), Relation::eq(kS0 * 2, 2));
  EXPECT_EQ(Relation::ne(kS0, 1), Relation::ne(kS1 + 1, kS1 + kS0));
  EXPECT_EQ(Relation::le(3, kS0), Relation::lt(kS1 * 2 + 5, kS0 * 2 + kS1 * 2));
  EXPECT_EQ(Relation::le(kS0, -3), Relation::lt(kS0 + 2, 0));
  EXPECT_EQ(Relation::eq(kS0, kS1).hash(), Relation::eq(kS1, kS0).hash());
  EXPECT_NE(Relation::eq(kS0, kS1).hash(), Relation::ne(kS0, kS1).hash());
  EXPECT_EQ(Relation::eq((kS0 + 1) * kS1, kS1 + kS0 * kS1), Relation::known(true));
  EXPECT_EQ(Relation::eq(kS0 * 2, 3), Relation::known(false));
  Relation a = Relation::eq(kS0, 4);
  Relation b = Relation::lt(kS0, kS1);
  EXPECT_EQ(Relation::all({a, b}), Relation::all({b, a, a}));
  EXPECT_EQ(Relation::all({a, b}).negated(), Relation::any({b.negated(), a.negated()}));
  EXPECT_EQ(Relation::all({a, b, a.negated()}), Relation::known(false));
  EXPECT_EQ(Relation::any({Relation::known(false), a}), a);
}

TEST(Relation, ReadsAsWritten) {
  EXPECT_EQ(Relation::lt(kS0, kS1 * 2).str(), "s0 < 2*s1");
  EXPECT_EQ(Relation::eq(mod(kS0, 8), 0).str(), "s0 % 8 == 0");
  EXPECT_EQ(Relation::gt(kS0, 1).str(), "s0 >= 2");
  EXPECT_EQ(Relation::le(kS0, 1024).str(), "s0 <= 1024");
  EXPECT_EQ(Relation::eq(kS1, kS0 + 1).str(), "s0 + 1 == s1");
  EXPECT_EQ(Relation::any({Relation::eq(kS0, 1), Relation::ne(kS1, kS2)}).str(), "s0 == 1 or s1 != s2");
}

TEST(Relation, NumbersPastSixtyFourBitsStayAsWritten) {
  Dim large = kS0 * INT64_MAX + INT64_MAX;
  Relation relation = Relation::lt(large, kS1 * INT64_MIN + INT64_MIN);
  EXPECT_EQ(relation.kind(), RelationKind::Lt);
  auto zero = [](std::string_view) { return std::optional<int64_t>(0); };
  EXPECT_EQ(relation.evaluate(zero), false);
  EXPECT_EQ(relation.negated().evaluate(zero), true);
  EXPECT_EQ(sizes().decide(relation), std::nullopt);
}

TEST(Facts, SizesAreDecided) {
  Facts facts = sizes();
  EXPECT_EQ(facts.decide(Relation::eq(kS0, 1)), false);
  EXPECT_EQ(facts.decide(Relation::eq(kS0 * 64, 0)), false);
  EXPECT_EQ(facts.decide(Relation::gt(kS0 + kS1, kS0)), true);
  EXPECT_EQ(facts.decide(Relation::gt(kS0 * kS1, kS1)), true);
  EXPECT_EQ(facts.decide(Relation::eq(kS0 * kS1, kS1)), false);
  EXPECT_EQ(facts.decide(Relation::ge(kS0 * kS1 * kS2, kS0 * kS2 * 2)), true);
  EXPECT_EQ(facts.decide(Relation::eq(mod(kS0 * kS1, kS1), 0)), true);
  EXPECT_EQ(facts.decide(Relation::eq(div(kS0 * 64, 64), kS0)), true);
  EXPECT_EQ(facts.decide(Relation::eq(div(kS0 * kS1 * 3, kS1 * 3), kS0)), true);
  EXPECT_EQ(facts.decide(Relation::lt(mod(kS0, kS1), kS1)), true);
  EXPECT_EQ(facts.decide(Relation::le(div(kS0, 2) * 2, kS0)), true);
  EXPECT_EQ(facts.decide(Relation::lt(div(kS0, 2), kS0)), true);
  EXPECT_EQ(facts.decide(Relation::le(min(kS0, kS1), kS1)), true);
  EXPECT_EQ(facts.decide(Relation::lt(max(kS0, kS1), kS1)), false);
  EXPECT_EQ(facts.decide(Relation::eq(kS0 * 2, kS1 * 2 + 1)), false);
  EXPECT_EQ(facts.decide(Relation::any({Relation::lt(kS0, 2), Relation::ne(kS1, 0)})), true);
  EXPECT_EQ(facts.decide(Relation::any({Relation::lt(kS0, kS1), Relation::le(kS1, kS0)})), true);
  EXPECT_EQ(facts.decide(Relation::all({Relation::lt(kS0, kS1), Relation::lt(kS1, kS2), Relation::lt(kS2, kS0)})),
            false);
  EXPECT_EQ(facts.decide(Relation::eq(kS0, kS1)), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::eq(mod(kS0, 8), 0)), std::nullopt);
}

// [s0, s1, 64]: contiguous, not channels-last, and its strides in order.
TEST(Facts, ContiguityIsDecided) {
  Facts facts = sizes();
  std::vector<Dim> shape = {kS0, kS1, 64};
  std::vector<Dim> strides = contiguous_strides(shape);
  Dim expected = 1;
  for (size_t i = 3; i-- > 0;) {
    EXPECT_EQ(facts.decide(Relation::eq(shape[i], 1)), false);
    EXPECT_EQ(facts.decide(Relation::eq(strides[i], expected)), true);
    EXPECT_EQ(facts.decide(Relation::eq(strides[i], 0)), false);
    expected = expected * shape[i];
  }
  EXPECT_EQ(facts.decide(Relation::gt(strides[0], strides[1])), true);
  EXPECT_EQ(facts.decide(Relation::eq(strides[1], kS1 * 64)), false) << "a transposed layout";
  EXPECT_EQ(facts.decide(Relation::lt(kS0 * kS1 * 64, 0)), false);
}

TEST(Facts, EqualitiesReplaceSymbols) {
  Facts facts = sizes();
  facts.assume(Relation::eq(kS1, kS0 + 1));
  EXPECT_EQ(facts.simplify(kS1 * 2 + kS0).str(), "3*s0 + 2");
  EXPECT_EQ(facts.decide(Relation::gt(kS1, kS0)), true);
  facts.assume(Relation::eq(kS2, kS1 * kS0));
  EXPECT_EQ(facts.simplify(div(kS2, kS0)).str(), "s0 + 1");
  facts.assume(Relation::eq(kS0, 4));
  EXPECT_EQ(facts.simplify(kS2), Dim(20));
  EXPECT_FALSE(facts.contradictory());
  facts.assume(Relation::eq(kS1, 4));
  EXPECT_TRUE(facts.contradictory());
}

TEST(Facts, BoundsPassFromSymbolToSymbol) {
  Facts facts = sizes();
  facts.assume(Relation::lt(kS0, kS1));
  facts.assume(Relation::lt(kS1, kS2));
  EXPECT_EQ(facts.decide(Relation::lt(kS0 + 1, kS2)), true);
  EXPECT_EQ(facts.decide(Relation::ge(kS0 * kS1, kS2 * kS1)), false);
  facts.assume(Relation::le(kS2, 16));
  EXPECT_EQ(facts.range(kS0 * 4 + 1), std::pair(std::optional<int64_t>(9), std::optional<int64_t>(57)));
  EXPECT_EQ(facts.simplify(max(kS0, 17)), Dim(17));
  EXPECT_EQ(facts.simplify(min(kS0, kS2)), kS0);
}

TEST(Facts, RemaindersAreKnown) {
  Facts facts = sizes();
  facts.assume(Relation::eq(mod(kS0, 8), 0));
  EXPECT_EQ(facts.decide(Relation::eq(mod(kS0, 4), 0)), true);
  EXPECT_EQ(facts.decide(Relation::eq(mod(kS0 * 3 + 16, 8), 0)), true);
  EXPECT_EQ(facts.decide(Relation::eq(mod(kS0 * kS1, 8), 0)), true);
  EXPECT_EQ(facts.decide(Relation::eq(kS0, kS1 * 4 + 2)), false);
  EXPECT_EQ(facts.decide(Relation::eq(div(kS0, 8) * 8, kS0)), true);
  facts.assume(Relation::eq(mod(kS1 + 1, 4), 0));
  EXPECT_EQ(facts.simplify(mod(kS1, 4)), Dim(3));
  facts.assume(Relation::eq(kS1, kS2 * 2 + 1));
  EXPECT_EQ(facts.simplify(mod(kS2 * 2 + 1, 4)), Dim(3));
}

TEST(Facts, SimplifiesDivisions) {
  Facts facts = sizes();
  EXPECT_EQ(facts.simplify(div(kS0 * 2, 2)), kS0);
  EXPECT_EQ(facts.simplify(mod(kS0 * 4, 2)), Dim(0));
  EXPECT_EQ(facts.simplify(div(kS0 * 4 + 3, 4)), kS0);
  EXPECT_EQ(facts.simplify(div(kS0 * 4 + kS1, 4)).str(), "s0 + s1 // 4");
  EXPECT_EQ(facts.simplify(div(div(kS0, 4), 8)).str(), "s0 // 32");
  EXPECT_EQ(facts.simplify(div(kS0, 8) * 8 + mod(kS0, 8)), kS0);
  EXPECT_EQ(facts.simplify(mod(mod(kS0, 32), 8)).str(), "s0 % 8");
  EXPECT_EQ(facts.simplify(div(kS0 * kS1 + kS1, kS0 + 1)), kS1);
  EXPECT_EQ(facts.simplify(div(kS0 * kS2, kS1 * kS2)).str(), "s0 // s1");
  Facts maybe_empty;
  maybe_empty.add_symbol("s0", 0, INT64_MAX);
  EXPECT_EQ(maybe_empty.simplify(mod(kS0 * 2, kS0)).str(), "2*s0 % s0") << "zero has no remainders";
}

TEST(Facts, ExcludedValuesMoveBounds) {
  Facts facts;
  facts.add_symbol("s0", 0, INT64_MAX);
  facts.assume(Relation::ne(kS0, 0));
  facts.assume(Relation::ne(kS0, 1));
  EXPECT_EQ(facts.range(kS0).first, 2);
  facts.assume(Relation::ne(kS0, 7));
  EXPECT_EQ(facts.decide(Relation::eq(kS0, 7)), false);
  EXPECT_EQ(facts.decide(Relation::eq(kS0, 8)), std::nullopt);
  facts.assume(Relation::any({Relation::eq(kS0, 1), Relation::eq(kS0, 9)}));
  EXPECT_EQ(facts.simplify(kS0), Dim(9));
}

TEST(Facts, WhatWasOpenIsAskedAnew) {
  Facts facts = sizes();
  Relation question = Relation::lt(kS0, kS2);
  EXPECT_EQ(facts.decide(question), std::nullopt);
  EXPECT_EQ(facts.decide(question), std::nullopt);
  facts.assume(Relation::lt(kS0, kS1));
  EXPECT_EQ(facts.decide(question), std::nullopt);
  Facts copy = facts;
  facts.assume(Relation::lt(kS1, kS2));
  EXPECT_EQ(facts.decide(question), true);
  EXPECT_EQ(facts.decide(question), true);
  EXPECT_EQ(facts.decide(question.negated()), false);
  copy.add_symbol("s2", 2, 2);
  EXPECT_EQ(copy.decide(question), false);
}

TEST(Facts, EmptyRangesContradict) {
  Facts facts;
  facts.add_symbol("s0", 8, 4);
  EXPECT_TRUE(facts.contradictory());
  Facts later = sizes();
  later.assume(Relation::lt(kS0, 2));
  EXPECT_TRUE(later.contradictory());
}

TEST(Facts, LargeSizesSaturate) {
  Facts facts;
  int64_t large = int64_t{1} << 61;
  facts.add_symbol("s0", 2, large);
  facts.add_symbol("s1", 2, large);
  EXPECT_EQ(facts.range(kS0 * kS1 * kS0), std::pair(std::optional<int64_t>(8), std::optional<int64_t>()));
  EXPECT_EQ(facts.decide(Relation::gt(kS0 * kS1 * kS0 * kS1, 15)), true);
  EXPECT_EQ(facts.decide(Relation::lt(kS0 * 8, kS1 * kS0 * 8)), true);
}

// A deep expression of everything at once: an answer or none, but soon.
TEST(Facts, TheBudgetEndsEveryQuestion) {
  Facts facts = sizes();
  Dim dim = kS0;
  for (int i = 0; i < 12; i++) {
    dim = (dim + kS1) * (mod(dim, kS2) + i);
    dim = div(dim, kS1 + i);
  }
  EXPECT_EQ(facts.decide(Relation::eq(dim, kS2 * 7 + 1)), std::nullopt);
  for (int i = 0; i < 64; i++) facts.assume(Relation::le(kS0 * i + kS1, kS2 * (i + 1) + mod(kS1, i + 2)));
  EXPECT_EQ(facts.decide(Relation::eq(kS0 * kS1 * 5, kS2 * 3 + 1)), std::nullopt);
}

std::vector<std::string> texts(const std::vector<Relation>& relations) {
  std::vector<std::string> result;
  for (const Relation& relation : relations) result.push_back(relation.str());
  return result;
}

TEST(Facts, RedundantRelationsGo) {
  Facts facts = sizes();
  std::vector<Relation> relations = {
      Relation::ge(kS0, 2),
      Relation::lt(kS0, kS2),
      Relation::all({Relation::lt(kS0, kS1), Relation::lt(kS1, kS2)}),
      Relation::eq(mod(kS0, 4), 0),
      Relation::eq(mod(kS0, 8), 0),
      Relation::ne(kS0 * kS1, 0),
      Relation::le(kS0 * 2, kS2 * 2),
      Relation::le(kS2, 4096),
  };
  std::vector<std::string> expected = {"s0 < s1", "s1 < s2", "s0 % 8 == 0", "s2 <= 4096"};
  EXPECT_EQ(texts(without_redundant(relations, facts)), expected);
  EXPECT_TRUE(without_redundant({}, facts).empty());
  std::vector<Relation> impossible = {Relation::eq(kS0, 4), Relation::eq(kS0, 5), Relation::ge(kS0, 3)};
  EXPECT_EQ(without_redundant(impossible, facts), impossible);
}

TEST(Facts, RedundantOnesOfManyGo) {
  Facts facts;
  std::vector<Relation> needed;
  std::vector<Relation> all;
  for (int i = 0; i < 100; i++) {
    Dim here = Dim::symbol("k" + std::to_string(i));
    Dim next = Dim::symbol("k" + std::to_string(i + 1));
    facts.add_symbol(here.str(), 2, INT64_MAX);
    facts.add_symbol(next.str(), 2, INT64_MAX);
    needed.push_back(Relation::lt(here, next * 2));
    all.push_back(Relation::le(here, next * 2));
    all.push_back(needed.back());
    all.push_back(Relation::lt(here * 3, next * 6 + 1));
  }
  EXPECT_EQ(without_redundant(all, facts), needed);
}

}  // namespace
}  // namespace firesteel
