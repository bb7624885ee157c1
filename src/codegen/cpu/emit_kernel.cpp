// Pointwise kernels: rows of the innermost loop, each as full vectors and a masked rest; all other loops are counted
// per row.
#include "codegen/cpu/emit_kernel.h"

#include <algorithm>
#include <optional>

#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_rows.h"
#include "codegen/cpu/near_load.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

// Short bodies are unrolled, to have more than one chain of operations in flight.
unsigned unrolling(const LoopKernel& kernel) {
  return kernel.exprs.size() <= 24 && kernel.transcendentals() <= 1 ? 2 : 1;
}

class Emitter {
 public:
  Emitter(const LoopKernel& kernel, Target target, llvm::Module& module)
      : kernel_(kernel), b_(module.getContext()), l_{module, b_, target, lanes_of(kernel, target)} {
    varies_ = kernel.varying(std::max<size_t>(kernel.sizes.size(), 1) - 1);
  }

  void emit(const std::string& name) {
    llvm::Function* function = begin_kernel(l_, name);
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      Value* place = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function->getArg(0), i);
      buffers_.push_back(b_.CreateLoad(b_.getPtrTy(), place));
    }
    sizes_.emplace(l_, kernel_, function->getArg(0), kernel_.buffers.size());
    Value *begin = function->getArg(1), *end = function->getArg(2);
    if (kernel_.sizes.size() <= 1) {
      emit_row({}, begin, b_.CreateSub(end, begin));
    } else if (kernel_.is_open()) {
      emit_counted_rows(begin, end);
    } else {
      emit_rows(begin, end);
    }
    b_.CreateRetVoid();
  }

 private:
  Value* n(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* n(const Dim& dim) { return (*sizes_)(dim); }

  // A range may begin and end in the middle of a row.
  void emit_rows(Value* begin, Value* end) {
    Value* inner = n(kernel_.sizes.back());
    emit_loop(l_, begin, end, nullptr, [&](Value* point) {
      Value* row = b_.CreateUDiv(point, inner);
      Value* column = b_.CreateSub(point, b_.CreateMul(row, inner));
      Value* left = b_.CreateSub(inner, column);
      Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, b_.CreateSub(end, point));
      std::vector<Value*> outer(kernel_.sizes.size() - 1);
      for (size_t d = outer.size(); d-- > 0;) {
        outer[d] = d ? b_.CreateURem(row, n(kernel_.sizes[d])) : row;
        row = b_.CreateUDiv(row, n(kernel_.sizes[d]));
      }
      emit_row(outer, column, count);
      return count;
    });
  }

  Value* stack_number(Value* first) {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    Value* slot = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(b_.getInt64Ty());
    b_.CreateStore(first, slot);
    return slot;
  }

  // The same with indices that count up from row to row: dividing by what is no constant takes longer than a short row.
  void emit_counted_rows(Value* begin, Value* end) {
    Value* inner = n(kernel_.sizes.back());
    Value* row = b_.CreateUDiv(begin, inner);
    Value* column_slot = stack_number(b_.CreateSub(begin, b_.CreateMul(row, inner)));
    std::vector<Value*> slots(kernel_.sizes.size() - 1);
    for (size_t d = slots.size(); d-- > 0;) {
      slots[d] = stack_number(d ? b_.CreateURem(row, n(kernel_.sizes[d])) : row);
      if (d) row = b_.CreateUDiv(row, n(kernel_.sizes[d]));
    }
    emit_loop(l_, begin, end, nullptr, [&](Value* point) {
      auto load = [&](Value* slot) { return b_.CreateLoad(b_.getInt64Ty(), slot); };
      std::vector<Value*> outer;
      for (Value* slot : slots) outer.push_back(load(slot));
      Value* column = load(column_slot);
      Value* left = b_.CreateSub(inner, column);
      Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, b_.CreateSub(end, point));
      emit_row(outer, column, count);
      b_.CreateStore(n(0), column_slot);
      Value* carry = b_.getTrue();
      for (size_t d = slots.size(); d-- > 0;) {
        Value* next = b_.CreateAdd(outer[d], n(1));
        Value* full = d ? b_.CreateICmpEQ(next, n(kernel_.sizes[d])) : b_.getFalse();
        b_.CreateStore(b_.CreateSelect(carry, b_.CreateSelect(full, n(0), next), outer[d]), slots[d]);
        carry = b_.CreateAnd(carry, full);
      }
      return count;
    });
  }

  Value* inner_stride(const IndexMap& map) { return map.strides.empty() ? n(1) : n(map.strides.back()); }

  Value* row_offset(const IndexMap& map, const std::vector<Value*>& outer, Value* column) {
    Value* at = n(map.offset);
    for (size_t d = 0; d < outer.size(); ++d) at = b_.CreateAdd(at, b_.CreateMul(outer[d], n(map.strides[d])));
    return b_.CreateAdd(at, b_.CreateMul(column, inner_stride(map)));
  }

  // May lie outside of the buffer where a load is not for all points.
  Value* row_start(const IndexMap& map, int32_t buffer, const std::vector<Value*>& outer, Value* column) {
    Value* at = row_offset(map, outer, column);
    return b_.CreateGEP(l_.memory_element(kernel_.buffers[buffer]), buffers_[buffer], at);
  }

  void emit_row(const std::vector<Value*>& outer, Value* column, Value* count) {
    load_rows_.assign(kernel_.exprs.size(), nullptr);
    fixed_.assign(kernel_.exprs.size(), nullptr);
    for (size_t i = 0; i < kernel_.exprs.size(); ++i) {
      const LoopExpr& expr = kernel_.exprs[i];
      if (expr.op == LoopOp::Index) load_rows_[i] = row_offset(expr.map, outer, column);
      if (is_load(expr.op)) load_rows_[i] = row_start(expr.map, expr.buffer, outer, column);
      if (!varies_[i]) fixed_[i] = evaluate(expr, load_rows_[i], fixed_, nullptr);
    }
    store_rows_.clear();
    for (const LoopStore& store : kernel_.stores)
      store_rows_.push_back(row_start(store.map, store.buffer, outer, column));

    const int64_t unrolled = unrolling(kernel_);
    Value* step = n(l_.width * unrolled);
    Value* whole = b_.CreateSub(count, b_.CreateURem(count, step));
    emit_loop(l_, n(0), whole, step, [&](Value* i) {
      for (int64_t u = 0; u < unrolled; ++u) emit_vector(b_.CreateAdd(i, n(u * l_.width)), nullptr);
      return nullptr;
    });
    emit_loop(l_, whole, count, n(l_.width), [&](Value* i) {
      Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(count, i), n(l_.width));
      emit_vector(i, emit_lanes_below(l_, left));
      return nullptr;
    });
  }

  Value* place(Value* row, Element type, Value* i, Value* stride) {
    return b_.CreateGEP(l_.memory_element(type), row, b_.CreateMul(i, stride));
  }

  // An expression at a vector of points, its operands in `values`; `start`: where memory or counting begins.
  Value* evaluate(const LoopExpr& expr, Value* start, const std::vector<Value*>& values, Value* mask) {
    if (expr.op == LoopOp::Size) return l_.splat(n(expr.size));
    Value* stride = inner_stride(expr.map);
    Value* operands[3] = {};
    for (int k = 0; k < operand_count(expr.op); ++k) operands[k] = values[expr.operands[k]];
    if (expr.op == LoopOp::Load) return emit_load(l_, expr.type, start, stride, mask);
    if (expr.op == LoopOp::LoadAt)
      return emit_load_at(l_, expr.type, start, stride, operands[0], !varies_[expr.operands[0]], mask);
    if (expr.op == LoopOp::LoadNear) {
      const NearLoad load{expr.type, start, stride, operands[0], operands[1], mask};
      return emit_load_near(l_, load, !varies_[expr.operands[0]], counts_by_one(expr.operands[1]));
    }
    if (expr.op == LoopOp::LoadIf)
      return emit_load_if(l_, expr.type, start, stride, operands[0], !varies_[expr.operands[0]], mask);
    if (expr.op == LoopOp::Index) return l_.counting(start, stride);
    return emit_expr(l_, kernel_, expr, operands);
  }

  bool counts_by_one(ExprId id) const {
    return kernel_.counts_by_one(id, std::max<size_t>(kernel_.sizes.size(), 1) - 1);
  }

  void emit_vector(Value* i, Value* mask) {
    std::vector<Value*> values = fixed_;
    for (size_t e = 0; e < values.size(); ++e) {
      const LoopExpr& expr = kernel_.exprs[e];
      if (values[e]) continue;
      Value* start = load_rows_[e];
      if (is_load(expr.op)) start = place(start, expr.type, i, inner_stride(expr.map));
      if (expr.op == LoopOp::Index) start = b_.CreateAdd(start, b_.CreateMul(i, inner_stride(expr.map)));
      values[e] = evaluate(expr, start, values, mask);
    }
    for (size_t s = 0; s < kernel_.stores.size(); ++s) {
      const LoopStore& store = kernel_.stores[s];
      const Element type = kernel_.buffers[store.buffer];
      Value* stride = inner_stride(store.map);
      emit_store(l_, type, values[store.value], place(store_rows_[s], type, i, stride), stride, mask);
    }
  }

  const LoopKernel& kernel_;
  llvm::IRBuilder<> b_;
  Lanes l_;
  std::optional<SizeValues> sizes_;
  std::vector<Value*> buffers_;
  std::vector<Value*> load_rows_, store_rows_;  // where the current row starts
  std::vector<Value*> fixed_;                   // expressions that are the same along a row
  std::vector<bool> varies_;                    // by expression: along a row
};

}  // namespace

void emit_kernel(const LoopKernel& kernel, const std::string& name, Target target, llvm::Module& module) {
  if (kernel.reduced) {
    emit_row_kernel(kernel, name, target, module);
  } else {
    Emitter(kernel, target, module).emit(name);
  }
}

}  // namespace firesteel::cpu
