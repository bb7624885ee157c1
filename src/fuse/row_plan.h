// How a kernel with reductions runs: in how many passes over a row, along the row or across rows, whole or in chunks.
//
// The cost model: a pass over a row that lies in cache is cheap, memory is not, so a row goes through all of its passes
// before the next one begins. A value that a later pass wants again is computed again where that takes little, else
// kept aside for the length of a row. Vectors lie along the loop in which most memory is contiguous. A few long rows
// are cut into chunks, so that threads can share them; their number depends on sizes alone, never on threads.
#pragma once

#include "fuse/loop_ir.h"

namespace firesteel {

struct RowPlan {
  explicit RowPlan(const LoopKernel& kernel);

  std::vector<bool> per_row;  // by expression: one value a row
  // By expression. Of a point: the first pass that can compute it. Of a row: how many passes must be over.
  std::vector<int> pass;
  int passes = 0;
  std::vector<std::vector<ExprId>> needed;      // by pass: expressions of points, and of rows that they read, in order
  std::vector<std::vector<ExprId>> reductions;  // by pass
  std::vector<std::vector<size_t>> stores;      // by pass: those of points
  std::vector<ExprId> kept;                     // values of points that later passes read from memory of their own
  std::vector<int> first_use;                   // by expression: the first pass that needs it; -1: none
  std::vector<ExprId> row_values;               // expressions of rows that anything reads, in order

  bool across = false;  // a vector holds many rows, else many points of one
  // Whether rows are cut. Of a kernel for open sizes each call decides: its code can do both.
  enum class Cut : uint8_t { Never, Always, AsCalled } cut = Cut::Never;
  size_t reduction_count = 0;

  int kept_from(ExprId id) const;  // the pass that computes it; -1 where it is not kept
  int64_t kept_bytes_a_point(const LoopKernel& kernel) const;
  bool chunks() const { return cut != Cut::Never; }  // code for chunks is there

 private:
  void find_levels(const LoopKernel& kernel);
  void find_needs(const LoopKernel& kernel);
  void choose_kept(const LoopKernel& kernel);
  void choose_direction(const LoopKernel& kernel);
  void choose_chunks(const LoopKernel& kernel);
};

// How many chunks a row is cut into, and of how many steps of its first loop.
struct Chunks {
  int64_t steps = 0, count = 0;  // 0: rows stay whole
};
// `first`: the size of the first reduced loop. Only where the plan has chunks().
Chunks chunks_of(const RowPlan& plan, int64_t rows, int64_t row_length, int64_t first);

// Rows worth passing over more than once in one kernel: few and long ones would leave threads idle.
bool worth_many_passes(const Dim& rows, const Dim& row_length);

}  // namespace firesteel
