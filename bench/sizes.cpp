// Symbolic sizes: what a guard costs on every call, and what a question costs while tracing.
//
// The guards are those of a batch of sequences through attention with a growing cache. The minimum of the rounds
// counts.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "shapes/linear.h"
#include "shapes/program.h"
#include "shapes/redundant.h"

namespace {

using firesteel::Dim;
using firesteel::Relation;

template <class F>
double nanoseconds(int times, F&& run) {
  double best = 1e300;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) run();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / times);
  }
  return best;
}

Dim div(const Dim& a, const Dim& b) { return Dim::make(firesteel::DimOp::FloorDiv, a, b); }
Dim mod(const Dim& a, const Dim& b) { return Dim::make(firesteel::DimOp::Mod, a, b); }

}  // namespace

int main() {
  const std::vector<std::string> symbols = {"s0", "s1", "s2"};
  const Dim batch = Dim::symbol("s0"), length = Dim::symbol("s1"), cache = Dim::symbol("s2");
  firesteel::Facts facts;
  for (const std::string& name : symbols) facts.add_symbol(name, 2, INT64_MAX);

  const std::vector<Relation> guards = {
      Relation::le(length, cache),         Relation::le(cache, 4096),
      Relation::eq(mod(length, 8), 0),     Relation::eq(mod(cache, 8), 0),
      Relation::le(batch, 1024),           Relation::ne(batch * length, 1),
      Relation::eq(mod(length, 4), 0),     Relation::lt(length, 8192),
      Relation::ne(length * 64, 0),        Relation::lt(batch * length * 64, int64_t{1} << 31),
      Relation::le(length * 2, cache * 2), Relation::ge(div(cache + 7, 8) * 8, length),
  };
  const std::vector<Relation> needed = firesteel::without_redundant(guards, facts);
  const int64_t values[] = {16, 128, 512};
  auto guard_cost = [&](const char* what, const std::vector<Relation>& relations) {
    const firesteel::RelationProgram program(relations, symbols);
    volatile int failed = -1;
    const double taken = nanoseconds(100000, [&] { failed = program.run(values); });
    std::printf("%-28s %3zu guards, %3zu steps: %6.1f ns a call, %5.2f ns a guard%s\n", what, relations.size(),
                program.size(), taken, taken / static_cast<double>(relations.size()), failed == -1 ? "" : "  FAILED");
  };
  guard_cost("as asked", guards);
  guard_cost("without redundant ones", needed);

  const std::vector<Dim> sizes = {batch * length, batch * length * 64, length * 64,
                                  div(cache, 8),  cache + 1,           mod(cache, 8)};
  const firesteel::DimProgram program(sizes, symbols);
  int64_t results[6];
  std::printf("%-28s %3zu sizes,  %3zu steps: %6.1f ns a call\n", "sizes computed", sizes.size(), program.size(),
              nanoseconds(100000, [&] { program.run(values, results); }));

  std::printf("\nwith%s isl: a question, by ranges or by the solver\n", firesteel::has_linear_solver() ? "" : "out");
  firesteel::Facts known = facts;
  for (const Relation& guard : needed) known.assume(guard);
  const std::pair<const char*, Relation> questions[] = {
      {"a size is not one", Relation::eq(batch, 1)},
      {"a stride is another", Relation::eq(batch * length * 64, length * 64)},
      {"equal sizes (open)", Relation::eq(batch, length)},
      {"divisible (open)", Relation::eq(mod(length, 16), 0)},
      {"rounded up", Relation::ge(div(length + 7, 8) * 8, length)},
      {"halves of a sum", Relation::le(div(batch, 2) + div(length, 2), div(batch + length, 2))},
  };
  known.decide(Relation::lt(batch, cache));  // finds values that meet the facts, once for all questions
  for (const auto& [what, question] : questions) {
    constexpr int kAsked = 100;
    std::vector<firesteel::Facts> copies(20 * kAsked, known);  // an answer is remembered
    auto next = copies.begin();
    const double first = nanoseconds(kAsked, [&, &asked = question] { (next++)->decide(asked); });
    const double again = nanoseconds(kAsked, [&, &asked = question] { copies[0].decide(asked); });
    const auto answer = known.decide(question);
    std::printf("%-28s %-6s %8.1f us, again %3.0f ns\n", what,
                !answer   ? "-"
                : *answer ? "true"
                          : "false",
                first / 1e3, again);
  }
  std::printf("%-28s %-6s %8.1f us\n", "dropping redundant guards", "",
              nanoseconds(5, [&] { firesteel::without_redundant(guards, facts); }) / 1e3);
}
