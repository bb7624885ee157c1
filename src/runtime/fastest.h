// Which of several ways to one result is the fastest: measured by the first call that asks, kept for the process and on
// disk.
//
// A contest runs all ways by turns on the tensors at hand, some milliseconds once for a shape and a machine, and goes
// on with the winner: its results are the same to the last bit from the first call on. Where ways are about as fast, a
// rule decides, and it decides alone in torch's deterministic mode, under FIRESTEEL_MEASURE=0, inside parallel code and
// for calls that take too long to be repeated.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include "firesteel/export.h"

namespace firesteel {

// All that may change which way is the fastest, but for the machine and the number of threads.
struct Contest {
  const char* kind;  // one word
  c10::SmallVector<int64_t, 12> facts;
  double work = 0;  // multiplications, or what takes about as long
  size_t by_rule = 0;
};

// Sizes near to each other, four of them to a doubling: they share a contest.
int64_t size_class(int64_t size);

// The number of the way to take: as many as `run` has, which runs one of them.
size_t fastest_way(const Contest& contest, size_t ways, c10::function_ref<void(size_t)> run);

// Runs the fastest way and gives its result. All give the same, up to rounding.
template <class Result, size_t Count>
Result run_fastest(const Contest& contest, const std::function<Result()> (&ways)[Count]) {
  return ways[fastest_way(contest, Count, [&](size_t way) { ways[way](); })]();
}

struct ContestCounters {
  uint64_t held = 0;    // contests
  uint64_t loaded = 0;  // answers taken from disk
};
FIRESTEEL_API ContestCounters contest_counters();
void reset_contest_counters();
// For tests: as if the process had just started.
FIRESTEEL_API void forget_contests();

}  // namespace firesteel
