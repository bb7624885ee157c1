// The running value of a reduction: several vectors side by side, summed in two steps where a row is long.
#pragma once

#include <vector>

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// Lives in stack slots, which become registers. A long sum goes through blocks: what a block made is added to the
// total and starts again from nothing, so rounding errors grow with the root of the length at most.
class Accumulator {
 public:
  // `unrolled` vectors; `in_blocks` adds the totals.
  Accumulator(const Lanes& lanes, LoopOp op, Element type, int64_t unrolled, bool in_blocks);

  void reset() const;
  void add(int64_t slot, llvm::Value* value, llvm::Value* mask) const;  // lanes outside the mask add nothing
  void set(int64_t slot, llvm::Value* value) const { l_.b.CreateStore(value, block_[slot]); }
  void end_block() const;
  llvm::Value* slot_total(int64_t slot) const;  // a vector, lane by lane
  llvm::Value* total() const;                   // of all slots and lanes, in every lane

  llvm::Value* identity() const;
  llvm::Value* combine(llvm::Value* a, llvm::Value* x) const;

 private:
  bool keeps_nan() const { return is_float(type_) && (op_ == LoopOp::RowMax || op_ == LoopOp::RowMin); }
  llvm::Value* pick(llvm::Value* a, llvm::Value* x) const;  // combine(), where NaN is kept apart
  llvm::Value* across_lanes(llvm::Value* vector) const;
  const Lanes& l_;
  LoopOp op_;
  Element type_;
  std::vector<llvm::Value*> block_, total_;
  std::vector<llvm::Value*> nan_;  // of a largest or smallest float: whether a lane has met one
};

}  // namespace firesteel::cpu
