// What kernels of every form are made of: expressions on vectors, memory in and out, loops.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// Vectors are as wide as fits the narrowest numbers computed with; wider ones take two or more registers.
unsigned lanes_of(const LoopKernel& kernel, Target target);

// `void name(ptr buffers, i64 begin, i64 end)`, open at its first block.
llvm::Function* begin_kernel(const Lanes& lanes, const std::string& name);

// Sizes, strides and offsets of a kernel as scalars: constants, or what the call has given.
class SizeValues {
 public:
  // `place`: of the pointer to LoopKernel::given among the function's buffers; not read where nothing is given.
  // `more`: how many numbers stand behind them.
  SizeValues(const Lanes& lanes, const LoopKernel& kernel, llvm::Value* buffers, size_t place, size_t more = 0);

  llvm::Value* operator()(const Dim& dim) const;
  llvm::Value* product(size_t first, size_t last) const;  // the steps of the loops [first, last)
  llvm::Value* further(size_t index) const { return values_[kernel_.given.size() + index]; }

 private:
  const Lanes& l_;
  const LoopKernel& kernel_;
  std::vector<llvm::Value*> values_;
};

bool is_number(const llvm::Value* value, int64_t number);  // a constant, and that one

// for (i = begin; i < end; i += step) body(i). Without a step the body gives it.
void emit_loop(const Lanes& lanes, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
               const std::function<llvm::Value*(llvm::Value*)>& body);

// An expression of its operands; `operands` as many as the operation has.
llvm::Value* emit_expr(const Lanes& lanes, const LoopKernel& kernel, const LoopExpr& expr,
                       llvm::Value* const* operands);

// A vector of elements `stride` apart from `from` on, as registers hold it; a stride of 0 repeats one element. Lanes
// outside the mask (null: there are none) are not touched. Strides of 0 and 1 are told by their constants.
llvm::Value* emit_load(const Lanes& lanes, Element type, llvm::Value* from, llvm::Value* stride, llvm::Value* mask);
// Likewise, each element as many further as its lane of `further` says; where that is the same in all lanes, `uniform`.
llvm::Value* emit_load_at(const Lanes& lanes, Element type, llvm::Value* from, llvm::Value* stride,
                          llvm::Value* further, bool uniform, llvm::Value* mask);
// Lanes that are not `inside` are not touched either, wherever their addresses lead, and are 0. Where `inside` is the
// same in all lanes, `uniform`.
llvm::Value* emit_load_if(const Lanes& lanes, Element type, llvm::Value* from, llvm::Value* stride, llvm::Value* inside,
                          bool uniform, llvm::Value* mask);
void emit_store(const Lanes& lanes, Element type, llvm::Value* value, llvm::Value* to, llvm::Value* stride,
                llvm::Value* mask);

llvm::Value* emit_lanes_below(const Lanes& lanes, llvm::Value* count);  // a mask of the first `count` lanes

}  // namespace firesteel::cpu
