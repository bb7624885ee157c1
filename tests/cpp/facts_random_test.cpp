// Facts about symbolic sizes, by trying all small values: no answer is wrong.
#include <algorithm>
#include <random>

#include "shapes/facts.h"
#include "shapes/redundant.h"

namespace firesteel {
namespace {

const Dim kS0 = Dim::symbol("s0");
const Dim kS1 = Dim::symbol("s1");
const Dim kS2 = Dim::symbol("s2");

// Random questions over three symbols, against all values that meet the facts.
class RandomFacts : public testing::Test {
 protected:
  int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  Dim dim(int depth) {
    if (depth == 0 || number(0, 3) == 0) {
      const Dim symbols[] = {kS0, kS1, kS2};
      if (number(0, 3) != 0) return symbols[number(0, 2)];
      return large_ ? Dim(large()) : Dim(number(-3, 8));
    }
    const DimOp ops[] = {DimOp::Add, DimOp::Add, DimOp::Mul, DimOp::FloorDiv, DimOp::Mod, DimOp::Min, DimOp::Max};
    Dim lhs = dim(depth - 1);
    return Dim::make(ops[number(0, 6)], lhs, dim(depth - 1));
  }

  Relation relation(int depth) {
    if (number(0, 7) == 0) {
      Relation lhs = relation(depth);
      std::vector<Relation> operands = {lhs, relation(depth)};
      return number(0, 1) == 0 ? Relation::all(operands) : Relation::any(operands);
    }
    Dim lhs = dim(depth);
    Dim rhs = dim(number(0, depth));
    switch (number(0, 3)) {
      case 0:
        return Relation::eq(lhs, rhs);
      case 1:
        return Relation::ne(lhs, rhs);
      case 2:
        return Relation::lt(lhs, rhs);
      default:
        return Relation::le(lhs, rhs);
    }
  }

  int64_t large() {
    const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1, -(int64_t{1} << 62), -(int64_t{1} << 31), -1, 0, 1, 3,
                               INT64_MAX, INT64_MAX - 1, int64_t{1} << 62,    int64_t{1} << 40};
    return numbers[number(0, 11)];
  }

  std::mt19937_64 random_{20240613};
  bool large_ = false;  // numbers at the ends of 64 bits
};

TEST_F(RandomFacts, NoAnswerIsWrong) {
  int decided = 0;
  int asked = 0;
  for (int round = 0; round < 2000; round++) {
    Facts facts;
    int64_t least[3];
    int64_t most[3];
    for (int i = 0; i < 3; i++) {
      least[i] = number(-2, 3);
      most[i] = least[i] + number(0, 6);
      bool open = number(0, 1) == 0;  // values past the brute force are not looked at
      facts.add_symbol("s" + std::to_string(i), least[i], open ? INT64_MAX : most[i]);
    }
    std::vector<Relation> assumed;
    for (int64_t i = number(0, 3); i > 0; i--) assumed.push_back(relation(1));
    for (const Relation& fact : assumed) facts.assume(fact);
    Relation question = relation(2);
    Dim expression = dim(3);
    auto answer = facts.decide(question);
    Dim simpler = facts.simplify(expression);
    auto [low, high] = facts.range(expression);
    bool possible = false;
    for (int64_t a = least[0]; a <= most[0]; a++) {
      for (int64_t b = least[1]; b <= most[1]; b++) {
        for (int64_t c = least[2]; c <= most[2]; c++) {
          auto lookup = [&](std::string_view name) { return std::optional(name == "s0" ? a : name == "s1" ? b : c); };
          if (!std::all_of(assumed.begin(), assumed.end(), [&](auto& fact) { return fact.evaluate(lookup) == true; }))
            continue;
          possible = true;
          auto context = [&] {
            std::string text = question.str() + " and " + expression.str() + " with";
            for (const Relation& fact : assumed) text += " " + fact.str() + ";";
            for (int i = 0; i < 3; i++) text += " " + std::to_string(least[i]) + ".." + std::to_string(most[i]);
            return text + " at " + std::to_string(a) + ", " + std::to_string(b) + ", " + std::to_string(c);
          };
          auto truth = question.evaluate(lookup);
          ASSERT_TRUE(!answer || !truth || *answer == *truth) << context();
          auto value = expression.evaluate(lookup);
          if (!value) continue;
          ASSERT_EQ(simpler.evaluate(lookup), value) << simpler.str() << " for " << context();
          ASSERT_TRUE((!low || *low <= *value) && (!high || *value <= *high)) << context();
        }
      }
    }
    ASSERT_FALSE(possible && facts.contradictory());
    asked += possible && !question.is_known();
    decided += possible && !question.is_known() && answer;
  }
  RecordProperty("asked", asked);
  RecordProperty("decided", decided);
  EXPECT_GT(decided * 4, asked);
}

TEST_F(RandomFacts, WhatIsLeftSaysTheSame) {
  size_t dropped = 0;
  for (int round = 0; round < 400; round++) {
    Facts facts;
    for (const char* name : {"s0", "s1", "s2"}) facts.add_symbol(name, 0, 4);
    std::vector<Relation> relations;
    for (int64_t i = number(1, 6); i > 0; i--) relations.push_back(relation(1));
    std::vector<Relation> left = without_redundant(relations, facts);
    dropped += left.size() < relations.size();
    Relation whole = Relation::all(relations);
    Relation rest = Relation::all(left);
    for (int64_t point = 0; point < 5 * 5 * 5; point++) {
      auto lookup = [&](std::string_view name) {
        return std::optional(name == "s0" ? point % 5 : name == "s1" ? point / 5 % 5 : point / 25);
      };
      // Where the first has no value (a division by zero), the rest may hold or not.
      auto before = whole.evaluate(lookup);
      auto after = rest.evaluate(lookup);
      ASSERT_TRUE(!before || before == after || (!*before && !after)) << whole.str();
    }
  }
  EXPECT_GT(dropped, 100);
}

TEST_F(RandomFacts, TheEndsOfSixtyFourBits) {
  large_ = true;
  int decided = 0;
  for (int round = 0; round < 400; round++) {
    Facts facts;
    int64_t ends[3][2];
    for (int i = 0; i < 3; i++) {
      ends[i][0] = large();
      ends[i][1] = large();
      std::sort(ends[i], ends[i] + 2);
      facts.add_symbol("s" + std::to_string(i), ends[i][0], ends[i][1]);
    }
    Relation fact = relation(1);
    facts.assume(fact);
    Relation question = relation(2);
    Dim expression = dim(3);
    auto answer = facts.decide(question);
    Dim simpler = facts.simplify(expression);
    decided += answer && !question.is_known();
    for (int corner = 0; corner < 8; corner++) {
      auto lookup = [&](std::string_view name) {
        int symbol = name[1] - '0';
        return std::optional(ends[symbol][corner >> symbol & 1]);
      };
      if (fact.evaluate(lookup) != true) continue;
      auto truth = question.evaluate(lookup);
      ASSERT_TRUE(!answer || !truth || *answer == *truth) << question.str() << " with " << fact.str();
      auto before = expression.evaluate(lookup);
      auto after = simpler.evaluate(lookup);  // one may pass 64 bits where the other does not
      ASSERT_TRUE(!before || !after || *before == *after) << expression.str() << " is not " << simpler.str();
    }
  }
  EXPECT_GT(decided, 50);
}

// Different points of time, the same facts: the order in which guards come does not make an answer wrong.
TEST_F(RandomFacts, EqualitiesInAnyOrder) {
  for (int round = 0; round < 500; round++) {
    Facts facts;
    for (const char* name : {"s0", "s1", "s2"}) facts.add_symbol(name, 0, 12);
    int64_t values[3] = {number(0, 12), number(0, 12), number(0, 12)};
    auto lookup = [&](std::string_view name) { return std::optional(values[name[1] - '0']); };
    for (int i = 0; i < 6; i++) {
      Dim lhs = dim(2);
      auto value = lhs.evaluate(lookup);
      if (!value) continue;
      Dim rhs = number(0, 1) == 0 ? dim(1) : Dim(*value);
      Relation fact = lhs == rhs || rhs.evaluate(lookup) != value ? Relation::eq(lhs, *value) : Relation::eq(lhs, rhs);
      facts.assume(fact);
      ASSERT_FALSE(facts.contradictory()) << fact.str();
      for (int j = 0; j < 3; j++) {
        Dim expression = dim(2);
        auto expected = expression.evaluate(lookup);
        ASSERT_TRUE(!expected || facts.simplify(expression).evaluate(lookup) == expected) << expression.str();
      }
    }
  }
}

}  // namespace
}  // namespace firesteel
