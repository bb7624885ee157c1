// What kernels of every form are made of: expressions on vectors, memory in and out, loops.
#pragma once

#include <functional>
#include <string>

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// Vectors are as wide as fits the narrowest numbers computed with; wider ones take two or more registers.
unsigned lanes_of(const LoopKernel& kernel, Target target);

// `void name(ptr buffers, i64 begin, i64 end)`, open at its first block.
llvm::Function* begin_kernel(const Lanes& lanes, const std::string& name);

// for (i = begin; i < end; i += step) body(i). Without a step the body gives it.
void emit_loop(const Lanes& lanes, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
               const std::function<llvm::Value*(llvm::Value*)>& body);

// An expression of its operands; `operands` as many as the operation has.
llvm::Value* emit_expr(const Lanes& lanes, const LoopKernel& kernel, const LoopExpr& expr,
                       llvm::Value* const* operands);

// A vector of elements `stride` apart from `from` on, as registers hold it; a stride of 0 repeats one element. Lanes
// outside the mask (null: there are none) are not touched.
llvm::Value* emit_load(const Lanes& lanes, Element type, llvm::Value* from, int64_t stride, llvm::Value* mask);
// Likewise, each element as many further as its lane of `further` says; where that is the same in all lanes, `uniform`.
llvm::Value* emit_load_at(const Lanes& lanes, Element type, llvm::Value* from, int64_t stride, llvm::Value* further,
                          bool uniform, llvm::Value* mask);
// Lanes that are not `inside` are not touched either, wherever their addresses lead, and are 0. Where `inside` is the
// same in all lanes, `uniform`.
llvm::Value* emit_load_if(const Lanes& lanes, Element type, llvm::Value* from, int64_t stride, llvm::Value* inside,
                          bool uniform, llvm::Value* mask);
void emit_store(const Lanes& lanes, Element type, llvm::Value* value, llvm::Value* to, int64_t stride,
                llvm::Value* mask);

llvm::Value* emit_lanes_below(const Lanes& lanes, llvm::Value* count);  // a mask of the first `count` lanes

}  // namespace firesteel::cpu
