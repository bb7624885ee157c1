// Linear constraints over whole numbers, and the question whether anything meets them all. Answered by isl, where the
// build has it (isl/), else never (no_isl/).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "firesteel/export.h"

namespace firesteel {

// The sum of factor * variable, plus the constant, is zero or (not `is_zero`) at least zero.
struct LinearRow {
  std::vector<std::pair<int, int64_t>> terms;
  int64_t constant = 0;
  bool is_zero = false;
};

struct LinearProblem {
  using Rows = std::vector<LinearRow>;  // all of them hold

  int variables = 0;
  Rows rows;
  std::vector<std::vector<Rows>> choices;  // of each, one alternative holds
};

// Proves that no whole numbers meet the problem. False where some do, or where the budget ends first.
FIRESTEEL_API bool has_no_point(const LinearProblem& problem);
// Whether has_no_point() can ever prove anything: else there is no need to write a problem down.
FIRESTEEL_API bool has_linear_solver();

}  // namespace firesteel
