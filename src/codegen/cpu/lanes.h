// A thin layer over LLVM's IR builder: vectors of one width, with the few operations that kernels are made of.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/cpu/target.h"
#include "fuse/loop_ir.h"

namespace firesteel::cpu {

// No fast-math flags anywhere: results are those of the operations as written.
struct Lanes {
  llvm::Module& module;
  llvm::IRBuilder<>& b;
  Target target;
  unsigned width;

  llvm::Type* element(Element type) const;         // of a register
  llvm::Type* memory_element(Element type) const;  // of a buffer
  llvm::Type* vector(llvm::Type* element) const { return llvm::FixedVectorType::get(element, width); }
  llvm::Type* f32() const { return vector(b.getFloatTy()); }
  llvm::Type* f64() const { return vector(b.getDoubleTy()); }
  llvm::Type* i32() const { return vector(b.getInt32Ty()); }
  llvm::Type* i64() const { return vector(b.getInt64Ty()); }

  llvm::Value* number(llvm::Type* type, double value) const { return llvm::ConstantFP::get(type, value); }
  llvm::Value* integer(llvm::Type* type, int64_t value) const { return llvm::ConstantInt::getSigned(type, value); }
  llvm::Value* f(double value) const { return number(f32(), value); }
  llvm::Value* i(int64_t value) const { return integer(i32(), value); }

  // a * b + c, fused where the target can; there is no such thing on plain SSE, and a call would cost far more.
  llvm::Value* fma(llvm::Value* a, llvm::Value* x, llvm::Value* c) const;
  llvm::Value* intrinsic(llvm::Intrinsic::ID id, llvm::Value* a) const { return b.CreateUnaryIntrinsic(id, a); }
  llvm::Value* copysign(llvm::Value* size, llvm::Value* sign) const {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, size, sign);
  }
  // NaN in `x` comes through.
  llvm::Value* at_least(llvm::Value* x, llvm::Value* bound) const {
    return b.CreateSelect(b.CreateFCmpOLT(x, bound), bound, x);
  }
  llvm::Value* at_most(llvm::Value* x, llvm::Value* bound) const {
    return b.CreateSelect(b.CreateFCmpOGT(x, bound), bound, x);
  }
  llvm::Value* is_nan(llvm::Value* x) const { return b.CreateFCmpUNO(x, x); }
  llvm::Value* as_int(llvm::Value* x) const { return b.CreateBitCast(x, i32()); }
  llvm::Value* as_float(llvm::Value* x) const { return b.CreateBitCast(x, f32()); }
  llvm::Value* all_lanes() const { return llvm::Constant::getAllOnesValue(vector(b.getInt1Ty())); }
  // first, first + step, …: an i64 a lane.
  llvm::Value* counting(llvm::Value* first, llvm::Value* step) const {
    return b.CreateAdd(splat(first), b.CreateMul(b.CreateStepVector(i64()), splat(step)));
  }
  llvm::Value* splat(llvm::Value* scalar) const { return b.CreateVectorSplat(width, scalar); }
};

// Registers and memory: what a buffer holds, widened, and back. Narrow floats are f32 that were rounded before.
llvm::Value* widen(const Lanes& lanes, llvm::Value* stored, Element type);
llvm::Value* narrow(const Lanes& lanes, llvm::Value* held, Element type);
// A cast of the loop IR.
llvm::Value* convert(const Lanes& lanes, llvm::Value* value, Element from, Element to);

}  // namespace firesteel::cpu
