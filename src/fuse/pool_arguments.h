// What pools of pictures are told: their windows, and what counts in them.
#pragma once

#include <optional>
#include <utility>

#include "fuse/loop_ir.h"
#include "graph/graph.h"

namespace firesteel {

constexpr int64_t kMostPlaces = 16;  // of a window; each is a load of its own

// Along one dimension of a picture.
struct PoolSide {
  int64_t size = 1, step = 1, pad = 0, dilation = 1;
  int64_t of = 0, points = 0;  // the picture's length, and how many windows there are

  int64_t start(int64_t place) const { return place * dilation - pad; }  // of a place in the first window
};

struct Pool {
  bool is_max = false;
  PoolSide down, along;
  bool counts_pad = true;
  std::optional<int64_t> divisor;
};

// Floats in memory whose rows are contiguous, all sizes known and none 0. Pictures with their channels side by side go
// fast in ATen.
bool is_picture(const Value* value);
bool has_picture_layout(const Type& type);  // the same of any element type

// The pool of `from` to `to` whose arguments begin at `first`: kernel_size, stride, padding; of the largest dilation
// and ceil_mode; of means ceil_mode, count_include_pad and divisor_override.
std::optional<Pool> pool_at(const Node& node, size_t first, bool is_max, const Type& from, const Type& to);
// The means of an adaptive pool whose windows are all alike and do not overlap.
std::optional<Pool> even_pool(const Type& from, const Type& to);

// How many places (an i32) count in a window of that number along a side.
ExprId window_length(LoopKernel& kernel, const PoolSide& side, ExprId window, bool counts_pad);

}  // namespace firesteel
