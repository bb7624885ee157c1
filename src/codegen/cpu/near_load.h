// Elements that lie close together, some of them several times over: a run of memory, and a permutation.
#pragma once

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// Lane by lane the element `further + near` (i64 and i32) beyond where emit_load() would read.
struct NearLoad {
  Element type;
  llvm::Value *from, *stride, *further, *near, *mask;
};

// `uniform`: `further` is the same in all lanes. `in_steps`: `near` rises by 0 or 1 from lane to lane, and all lanes
// lie inside the buffer, those outside of the mask too. Where both hold no lane is gathered.
llvm::Value* emit_load_near(const Lanes& lanes, const NearLoad& load, bool uniform, bool in_steps);

}  // namespace firesteel::cpu
