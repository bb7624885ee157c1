// Which loops the dimensions of a group's values are made of, so that reshaped and permuted values share one index
// space.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/dim.h"

namespace firesteel {

using LoopId = int32_t;
// For each dimension of a value the loops it is made of, outermost first; none for a dimension of size 1.
using Placement = std::vector<std::vector<LoopId>>;

// All loops of a fusion. A loop may be split in two, or be found to be another group's loop; placements written before
// stay valid, for they are read through `leaves`.
class LoopTable {
 public:
  Placement place(const std::vector<Dim>& sizes);  // a new loop for each size but 1

  const Dim& size(LoopId loop) const { return loops_[loop].size; }
  // The loops as they are now split and joined.
  std::vector<LoopId> leaves(const std::vector<LoopId>& loops) const;
  std::vector<LoopId> leaves(const Placement& placement) const;
  bool same(const std::vector<LoopId>& a, const std::vector<LoopId>& b) const { return leaves(a) == leaves(b); }
  bool same_sizes(const std::vector<LoopId>& a, const std::vector<LoopId>& b) const;

  // Loops that a reduction runs over.
  void reduce(const std::vector<LoopId>& loops);
  bool is_reduced(LoopId leaf) const { return loops_[leaf].reduced; }
  bool has_reduced(const Placement& placement) const;
  bool all_reduced(const std::vector<LoopId>& loops) const;

  // The same points in the same row-major order, seen with other sizes. None where a loop cannot be split evenly, or
  // not for all sizes.
  std::optional<Placement> reshape(const Placement& placement, const std::vector<Dim>& sizes);
  // Makes the loops of `b` those of `a`, which belong to another group. Splits only, and false, where they do not fit,
  // or where both groups reduce and not over the same loops.
  bool join(const Placement& a, const Placement& b, bool both_reduce);

 private:
  struct Loop {
    Dim size = 1;
    LoopId outer = -1, inner = -1;  // split
    LoopId joined = -1;             // is that loop
    bool reduced = false;
  };
  void append_leaves(LoopId loop, std::vector<LoopId>& out) const;
  LoopId add(Dim size);
  void split(LoopId leaf, Dim outer, Dim inner);
  bool align(const std::vector<LoopId>& a, const std::vector<LoopId>& b);

  std::vector<Loop> loops_;
};

}  // namespace firesteel
