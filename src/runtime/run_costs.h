// What each kernel and operator of a program costs in time and memory, counted while somebody profiles.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "firesteel/export.h"

namespace firesteel {

// All runs together.
struct RunCost {
  uint64_t runs = 0;
  double seconds = 0;
  uint64_t bytes_read = 0;  // of the tensors it was given; a view reads nothing
  uint64_t bytes_made = 0;  // of results in memory of their own
};

// One row an instruction. Any number of threads may add at the same time.
class RunCosts {
 public:
  explicit RunCosts(size_t rows);
  ~RunCosts();
  void add(size_t row, const RunCost& run);
  RunCost at(size_t row) const;

 private:
  struct Row;
  std::unique_ptr<Row[]> rows_;
};

// What a graph's kernels have cost, one a group, and its nodes that run by themselves; none of those in kernels.
struct ProgramCosts {
  std::vector<RunCost> kernels, nodes;
};

// Nothing is measured unless it is on. Asked only of runs that are watched, as all are while it is on.
FIRESTEEL_API bool is_profiling();
FIRESTEEL_API void set_profiling(bool on);

}  // namespace firesteel
