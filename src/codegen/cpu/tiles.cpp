// Which loads go by tiles, and a tile's transposition: blocks of 1, 2, 4 … lanes change places with those across.
#include "codegen/cpu/tiles.h"

#include <algorithm>

#include "fuse/size_math.h"

namespace firesteel::cpu {

using llvm::Value;

std::vector<bool> tiled_loads(const Lanes& l, const LoopKernel& kernel) {
  constexpr int64_t kShort = 8;
  std::vector<bool> tiled(kernel.exprs.size(), false);
  const size_t rank = kernel.sizes.size();
  auto is_short = [&](size_t loop) { return estimate(kernel.sizes[loop]) < kShort; };
  if (rank < 2 || l.target == Target::Sse || is_short(rank - 1) || is_short(rank - 2)) return tiled;
  for (size_t i = 0; i < tiled.size(); ++i) {
    const LoopExpr& expr = kernel.exprs[i];
    if (expr.op != LoopOp::Load || computed_as(expr.type) == Element::Bool) continue;
    const Dim& inner = expr.map.strides[rank - 1];
    const bool in_order = inner.is_number() &&
                          (inner.number() == 0 || inner.number() == 1 || inner.number() == -1 || inner.number() == 2);
    tiled[i] = !in_order && is_number(expr.map.strides[rank - 2], 1) &&
               (l.target == Target::Avx512 || element_bytes(expr.type) >= 4);
  }
  return tiled;
}

void transpose_tile(const Lanes& l, std::vector<Value*>& vectors) {
  const auto width = static_cast<int>(l.width);
  for (int block = 1; block < width; block *= 2) {
    std::vector<int> low(width), high(width);
    for (int lane = 0; lane < width; ++lane) {
      const bool across = lane & block;
      low[lane] = across ? width + lane - block : lane;
      high[lane] = across ? width + lane : lane + block;
    }
    for (int i = 0; i < width; ++i) {
      if (i & block) continue;
      Value *a = vectors[i], *c = vectors[i + block];
      vectors[i] = l.b.CreateShuffleVector(a, c, low);
      vectors[i + block] = l.b.CreateShuffleVector(a, c, high);
    }
  }
}

}  // namespace firesteel::cpu
