// Operators whose result is put together of pieces: cat, stack, padding, and the gradients of slices.
#pragma once

#include "fuse/node_rules.h"

namespace firesteel {

// A tensor that lies somewhere in the result.
struct Piece {
  const Value* value = nullptr;
  std::vector<size_t> along;  // by dimension of the piece: that of the result
  std::vector<Dim> start;     // by dimension of the piece: where in the result it begins
  // Where along a dimension of the result it lies: those in which it does not fill the result.
  struct Range {
    size_t dim;
    Dim begin, end;
  };
  std::vector<Range> ranges;
};

std::optional<NodeSpace> piece_space(const Node& node);
std::optional<ExprId> lower_pieces(const Node& node, LoopKernel& kernel, Operands& operands);

}  // namespace firesteel
