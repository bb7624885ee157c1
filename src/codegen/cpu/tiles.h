// Operands that lie in memory across the innermost loop: read by tiles of as many rows as a vector has lanes, and
// transposed in registers.
#pragma once

#include <vector>

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// By expression: loads whose memory runs along the loop before the last. None where the machine has no masks for parts
// of a tile, or where tiles would hardly be filled.
std::vector<bool> tiled_loads(const Lanes& lanes, const LoopKernel& kernel);

// As many vectors as a vector has lanes: element i of vector k becomes element k of vector i.
void transpose_tile(const Lanes& lanes, std::vector<llvm::Value*>& vectors);

}  // namespace firesteel::cpu
