// The error function by pieces: one polynomial for each eighth of a unit, looked up by permutation.
#pragma once

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// Of |x|, or NaN; AVX-512 and 16 lanes only.
llvm::Value* emit_erf_of_size(const Lanes& lanes, llvm::Value* size);

}  // namespace firesteel::cpu
