// Rows of the innermost loop, each as full vectors and a masked rest; all other loops are counted per row.
#include "codegen/cpu/emit_kernel.h"

#include <functional>

#include "codegen/cpu/lanes.h"
#include "codegen/cpu/vector_math.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

// Vectors are as wide as fits the narrowest numbers computed with; wider ones take two or more registers.
unsigned lanes_of(const LoopKernel& kernel, Target target) {
  for (const LoopExpr& expr : kernel.exprs) {
    const Element type = computed_as(expr.type);
    if (type == Element::F32 || type == Element::I32) return static_cast<unsigned>(vector_bytes(target)) / 4;
  }
  return static_cast<unsigned>(vector_bytes(target)) / 8;
}

// Short bodies are unrolled, to have more than one chain of operations in flight.
unsigned unrolling(const LoopKernel& kernel) {
  return kernel.exprs.size() <= 24 && kernel.transcendentals() <= 1 ? 2 : 1;
}

class Emitter {
 public:
  Emitter(const LoopKernel& kernel, Target target, llvm::Module& module)
      : kernel_(kernel), module_(module), b_(module.getContext()), l_{module, b_, target, lanes_of(kernel, target)} {
    if (!kernel.sizes.empty()) inner_ = kernel.sizes.back();
  }

  void emit(const std::string& name) {
    llvm::Type* arguments[] = {b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty()};
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), arguments, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
    function_->setDoesNotThrow();
    const std::string bits = std::to_string(vector_bytes(l_.target) * 8);
    function_->addFnAttr("prefer-vector-width", bits);
    function_->addFnAttr("min-legal-vector-width", bits);
    b_.SetInsertPoint(block("entry"));
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      Value* place = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(0), i);
      buffers_.push_back(b_.CreateLoad(b_.getPtrTy(), place));
    }
    Value *begin = function_->getArg(1), *end = function_->getArg(2);
    if (kernel_.sizes.size() <= 1) {
      emit_row({}, begin, b_.CreateSub(end, begin));
    } else {
      emit_rows(begin, end);
    }
    b_.CreateRetVoid();
  }

 private:
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(module_.getContext(), name, function_); }
  Value* n(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  // for (i = begin; i < end; i += step) body(i)
  void loop(Value* begin, Value* end, Value* step, const std::function<Value*(Value*)>& body) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *inside = block("loop"), *after = block("after");
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), inside, after);
    b_.SetInsertPoint(inside);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(begin, before);
    Value* taken = body(i);  // the step, where only the body knows it
    Value* next = b_.CreateAdd(i, step ? step : taken);
    i->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next, end), inside, after);
    b_.SetInsertPoint(after);
  }

  // A range may begin and end in the middle of a row.
  void emit_rows(Value* begin, Value* end) {
    loop(begin, end, nullptr, [&](Value* point) {
      Value* row = b_.CreateUDiv(point, n(inner_));
      Value* column = b_.CreateSub(point, b_.CreateMul(row, n(inner_)));
      Value* left = b_.CreateSub(n(inner_), column);
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

  static int64_t inner_stride(const IndexMap& map) { return map.strides.empty() ? 1 : map.strides.back(); }

  Value* row_start(const IndexMap& map, int32_t buffer, const std::vector<Value*>& outer, Value* column) {
    Value* at = n(map.offset);
    for (size_t d = 0; d < outer.size(); ++d) at = b_.CreateAdd(at, b_.CreateMul(outer[d], n(map.strides[d])));
    at = b_.CreateAdd(at, b_.CreateMul(column, n(inner_stride(map))));
    return b_.CreateInBoundsGEP(l_.memory_element(kernel_.buffers[buffer]), buffers_[buffer], at);
  }

  void emit_row(const std::vector<Value*>& outer, Value* column, Value* count) {
    load_rows_.assign(kernel_.exprs.size(), nullptr);
    fixed_.assign(kernel_.exprs.size(), nullptr);
    for (size_t i = 0; i < kernel_.exprs.size(); ++i) {
      const LoopExpr& expr = kernel_.exprs[i];
      if (expr.op != LoopOp::Load) continue;
      load_rows_[i] = row_start(expr.map, expr.buffer, outer, column);
      if (inner_stride(expr.map) != 0) continue;
      Value* scalar =
          b_.CreateAlignedLoad(l_.memory_element(expr.type), load_rows_[i], llvm::Align(element_bytes(expr.type)));
      fixed_[i] = widen(l_, l_.splat(scalar), expr.type);
    }
    store_rows_.clear();
    for (const LoopStore& store : kernel_.stores)
      store_rows_.push_back(row_start(store.map, store.buffer, outer, column));

    const int64_t unrolled = unrolling(kernel_);
    Value* step = n(l_.width * unrolled);
    Value* whole = b_.CreateSub(count, b_.CreateURem(count, step));
    loop(n(0), whole, step, [&](Value* i) {
      for (int64_t u = 0; u < unrolled; ++u) emit_vector(b_.CreateAdd(i, n(u * l_.width)), nullptr);
      return nullptr;
    });
    loop(whole, count, n(l_.width), [&](Value* i) {
      Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(count, i), n(l_.width));
      Value* lanes = b_.CreateStepVector(l_.i32());
      emit_vector(i, b_.CreateICmpSLT(lanes, l_.splat(b_.CreateTrunc(left, b_.getInt32Ty()))));
      return nullptr;
    });
  }

  // The addresses of a vector whose elements do not lie side by side.
  Value* addresses(Value* row, Value* i, Element type, int64_t stride) {
    Value* lanes = b_.CreateAdd(b_.CreateStepVector(l_.i64()), l_.splat(i));
    return b_.CreateInBoundsGEP(l_.memory_element(type), row, b_.CreateMul(lanes, l_.integer(l_.i64(), stride)));
  }

  Value* full_mask() { return llvm::Constant::getAllOnesValue(l_.vector(b_.getInt1Ty())); }

  Value* emit_load(const LoopExpr& expr, Value* row, Value* i, Value* mask) {
    llvm::Type* element = l_.memory_element(expr.type);
    llvm::Type* type = l_.vector(element);
    const llvm::Align align(element_bytes(expr.type));
    const int64_t stride = inner_stride(expr.map);
    if (stride != 1) {
      Value* from = addresses(row, i, expr.type, stride);
      return widen(
          l_, b_.CreateMaskedGather(type, from, align, mask ? mask : full_mask(), llvm::Constant::getNullValue(type)),
          expr.type);
    }
    Value* from = b_.CreateInBoundsGEP(element, row, i);
    Value* stored =
        mask ? static_cast<Value*>(b_.CreateMaskedLoad(type, from, align, mask, llvm::Constant::getNullValue(type)))
             : b_.CreateAlignedLoad(type, from, align);
    return widen(l_, stored, expr.type);
  }

  void emit_store(const LoopStore& store, Value* row, Value* value, Value* i, Value* mask) {
    const Element type = kernel_.buffers[store.buffer];
    const llvm::Align align(element_bytes(type));
    Value* stored = narrow(l_, value, type);
    if (inner_stride(store.map) != 1) {
      Value* to = addresses(row, i, type, inner_stride(store.map));
      b_.CreateMaskedScatter(stored, to, align, mask ? mask : full_mask());
      return;
    }
    Value* to = b_.CreateInBoundsGEP(l_.memory_element(type), row, i);
    if (mask) {
      b_.CreateMaskedStore(stored, to, align, mask);
    } else {
      b_.CreateAlignedStore(stored, to, align);
    }
  }

  void emit_vector(Value* i, Value* mask) {
    std::vector<Value*> values(kernel_.exprs.size());
    for (size_t e = 0; e < values.size(); ++e) {
      const LoopExpr& expr = kernel_.exprs[e];
      if (fixed_[e]) {
        values[e] = fixed_[e];
      } else if (expr.op == LoopOp::Load) {
        values[e] = emit_load(expr, load_rows_[e], i, mask);
      } else {
        Value* operands[3] = {};
        for (int k = 0; k < operand_count(expr.op); ++k) operands[k] = values[expr.operands[k]];
        values[e] = emit_expr(expr, operands);
      }
    }
    for (size_t s = 0; s < kernel_.stores.size(); ++s) {
      emit_store(kernel_.stores[s], store_rows_[s], values[kernel_.stores[s].value], i, mask);
    }
  }

  Value* emit_compare(LoopOp op, Element type, Value* a, Value* c) {
    using P = llvm::CmpInst::Predicate;
    struct Predicates {
      P of_floats, of_ints, of_bools;
    };
    static constexpr Predicates kPredicates[] = {
        {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
        {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
        {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
    const Predicates& row = kPredicates[static_cast<int>(op) - static_cast<int>(LoopOp::Eq)];
    return b_.CreateCmp(is_float(type) ? row.of_floats : type == Element::Bool ? row.of_bools : row.of_ints, a, c);
  }

  // The larger or the smaller; as the machine's own instruction does it, with NaN on the left added.
  Value* emit_extreme(LoopOp op, bool floats, Value* a, Value* c) {
    const bool larger = op == LoopOp::Max;
    if (!floats) return b_.CreateSelect(larger ? b_.CreateICmpSGT(a, c) : b_.CreateICmpSLT(a, c), a, c);
    Value* pick = b_.CreateSelect(larger ? b_.CreateFCmpOGT(a, c) : b_.CreateFCmpOLT(a, c), a, c);
    return b_.CreateSelect(l_.is_nan(a), a, pick);
  }

  Value* emit_expr(const LoopExpr& expr, Value* const* x) {
    const Element type = computed_as(expr.type);
    const bool floats = is_float(type);
    switch (expr.op) {
      case LoopOp::Load:
        break;
      case LoopOp::Constant: {
        llvm::Type* vector = l_.vector(l_.element(expr.type));
        return floats ? l_.number(vector, expr.number) : l_.integer(vector, expr.integer);
      }
      case LoopOp::Cast:
        return convert(l_, x[0], kernel_.type(expr.operands[0]), expr.type);
      case LoopOp::Neg:
        return floats ? b_.CreateFNeg(x[0]) : b_.CreateNeg(x[0]);
      case LoopOp::Abs:
        if (floats) return l_.intrinsic(llvm::Intrinsic::fabs, x[0]);
        return b_.CreateSelect(b_.CreateICmpSLT(x[0], l_.integer(x[0]->getType(), 0)), b_.CreateNeg(x[0]), x[0]);
      case LoopOp::Not:
        return b_.CreateNot(x[0]);
      case LoopOp::Sqrt:
        return l_.intrinsic(llvm::Intrinsic::sqrt, x[0]);
      case LoopOp::Exp:
      case LoopOp::Log:
      case LoopOp::Sin:
      case LoopOp::Cos:
      case LoopOp::Tanh:
      case LoopOp::Erf:
        return emit_math(l_, expr.op, x[0]);
      case LoopOp::Add:
        return floats ? b_.CreateFAdd(x[0], x[1]) : b_.CreateAdd(x[0], x[1]);
      case LoopOp::Sub:
        return floats ? b_.CreateFSub(x[0], x[1]) : b_.CreateSub(x[0], x[1]);
      case LoopOp::Mul:
        return floats ? b_.CreateFMul(x[0], x[1]) : b_.CreateMul(x[0], x[1]);
      case LoopOp::Div:
        return b_.CreateFDiv(x[0], x[1]);
      case LoopOp::Max:
      case LoopOp::Min:
        return emit_extreme(expr.op, floats, x[0], x[1]);
      case LoopOp::And:
        return b_.CreateAnd(x[0], x[1]);
      case LoopOp::Or:
        return b_.CreateOr(x[0], x[1]);
      case LoopOp::Eq:
      case LoopOp::Ne:
      case LoopOp::Lt:
      case LoopOp::Le:
      case LoopOp::Gt:
      case LoopOp::Ge:
        return emit_compare(expr.op, computed_as(kernel_.type(expr.operands[0])), x[0], x[1]);
      case LoopOp::Fma:
        return l_.fma(x[0], x[1], x[2]);
      case LoopOp::Select:
        return b_.CreateSelect(x[0], x[1], x[2]);
    }
    return nullptr;
  }

  const LoopKernel& kernel_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  Lanes l_;
  int64_t inner_ = 1;
  llvm::Function* function_ = nullptr;
  std::vector<Value*> buffers_;
  std::vector<Value*> load_rows_, store_rows_;  // where the current row starts
  std::vector<Value*> fixed_;                   // loads that are the same along a row
};

}  // namespace

void emit_kernel(const LoopKernel& kernel, const std::string& name, Target target, llvm::Module& module) {
  Emitter(kernel, target, module).emit(name);
}

}  // namespace firesteel::cpu
