// A sum or product that runs along rows: what the points so far have made.
#pragma once

#include "codegen/cpu/accumulator.h"

namespace firesteel::cpu {

// Lives in a stack slot, which becomes registers.
class RunningValue {
 public:
  // `in_order`: one point after the other, where what some of them make alone might be too large for the type.
  RunningValue(const Lanes& lanes, LoopOp op, Element type, bool in_order);

  void reset() const;
  llvm::Value* along(llvm::Value* points) const;  // a vector holds points of one row, in order
  llvm::Value* across(llvm::Value* rows) const;   // a vector holds one point each of many rows

 private:
  llvm::Value* along_in_order(llvm::Value* points) const;

  const Lanes& l_;
  bool in_order_;
  Accumulator carried_;  // in every lane the same where points lie along a row
};

}  // namespace firesteel::cpu
