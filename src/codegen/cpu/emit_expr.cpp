// One expression of the loop IR on vectors, and elements in and out of memory.
#include "codegen/cpu/emit_expr.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/cpu/vector_math.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

Value* emit_compare(const Lanes& l, LoopOp op, Element type, Value* a, Value* c) {
  using P = llvm::CmpInst::Predicate;
  struct Predicates {
    P of_floats, of_ints, of_bools;
  };
  static constexpr Predicates kPredicates[] = {
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
  const Predicates& row = kPredicates[static_cast<int>(op) - static_cast<int>(LoopOp::Eq)];
  return l.b.CreateCmp(is_float(type) ? row.of_floats : type == Element::Bool ? row.of_bools : row.of_ints, a, c);
}

// The larger or the smaller; as the machine's own instruction does it, with NaN on the left added.
Value* emit_extreme(const Lanes& l, LoopOp op, bool floats, Value* a, Value* c) {
  const bool larger = op == LoopOp::Max;
  if (!floats) return l.b.CreateSelect(larger ? l.b.CreateICmpSGT(a, c) : l.b.CreateICmpSLT(a, c), a, c);
  Value* pick = l.b.CreateSelect(larger ? l.b.CreateFCmpOGT(a, c) : l.b.CreateFCmpOLT(a, c), a, c);
  return l.b.CreateSelect(l.is_nan(a), a, pick);
}

// The machine traps where the quotient is none (0, lanes outside of a mask too) or has no place (the smallest by -1).
Value* emit_quotient(const Lanes& l, Value* a, Value* c) {
  llvm::Type* type = a->getType();
  Value* minus = l.b.CreateICmpEQ(c, l.integer(type, -1));
  Value* odd = l.b.CreateOr(minus, l.b.CreateICmpEQ(c, l.integer(type, 0)));
  Value* quotient = l.b.CreateSDiv(a, l.b.CreateSelect(odd, l.integer(type, 1), c));
  return l.b.CreateSelect(minus, l.b.CreateNeg(a), quotient);
}

// The last lane first.
Value* turned(const Lanes& l, Value* vector) {
  std::vector<int> order(l.width);
  for (unsigned lane = 0; lane < l.width; ++lane) order[lane] = static_cast<int>(l.width - 1 - lane);
  return l.b.CreateShuffleVector(vector, order);
}

// The addresses of a vector whose elements do not lie side by side.
Value* addresses(const Lanes& l, Element type, Value* from, Value* stride, Value* further = nullptr) {
  Value* steps = l.b.CreateMul(l.b.CreateStepVector(l.i64()), l.splat(stride));
  if (further) steps = l.b.CreateAdd(steps, further);
  return l.b.CreateGEP(l.memory_element(type), from, steps);
}

Value* emit_gather(const Lanes& l, Element type, Value* places, Value* mask) {
  llvm::Type* vector = l.vector(l.memory_element(type));
  const llvm::Align align(element_bytes(type));
  Value* lanes = mask ? mask : l.all_lanes();
  return widen(l, l.b.CreateMaskedGather(vector, places, align, lanes, llvm::Constant::getNullValue(vector)), type);
}

}  // namespace

bool is_number(const Value* value, int64_t number) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->getSExtValue() == number;
}

SizeValues::SizeValues(const Lanes& lanes, const LoopKernel& kernel, Value* buffers, size_t place, size_t more)
    : l_(lanes), kernel_(kernel) {
  if (!kernel.is_open()) return;
  llvm::IRBuilder<>& b = l_.b;
  Value* numbers = b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getPtrTy(), buffers, place));
  for (size_t i = 0; i < kernel.given.size() + more; ++i)
    values_.push_back(b.CreateLoad(b.getInt64Ty(), b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), numbers, i)));
}

Value* SizeValues::operator()(const Dim& dim) const {
  if (dim.is_number()) return l_.b.getInt64(static_cast<uint64_t>(dim.number()));
  auto place = std::find(kernel_.given.begin(), kernel_.given.end(), dim);
  FS_CHECK(place != kernel_.given.end(), "`{}` is not given to the kernel", dim.str());
  return values_[place - kernel_.given.begin()];
}

Value* SizeValues::product(size_t first, size_t last) const {
  Value* result = l_.b.getInt64(1);
  for (size_t d = first; d < last; ++d) result = l_.b.CreateMul(result, (*this)(kernel_.sizes[d]));
  return result;
}

Value* emit_expr(const Lanes& l, const LoopKernel& kernel, const LoopExpr& expr, Value* const* x) {
  const Element type = computed_as(expr.type);
  const bool floats = is_float(type);
  switch (expr.op) {
    default:  // loads, indices and reductions are not made of their operands alone
      break;
    case LoopOp::Constant: {
      llvm::Type* vector = l.vector(l.element(expr.type));
      return floats ? l.number(vector, expr.number) : l.integer(vector, expr.integer);
    }
    case LoopOp::Cast:
      return convert(l, x[0], kernel.type(expr.operands[0]), expr.type);
    case LoopOp::Neg:
      return floats ? l.b.CreateFNeg(x[0]) : l.b.CreateNeg(x[0]);
    case LoopOp::Abs:
      if (floats) return l.intrinsic(llvm::Intrinsic::fabs, x[0]);
      return l.b.CreateSelect(l.b.CreateICmpSLT(x[0], l.integer(x[0]->getType(), 0)), l.b.CreateNeg(x[0]), x[0]);
    case LoopOp::Not:
      return l.b.CreateNot(x[0]);
    case LoopOp::Sqrt:
      return l.intrinsic(llvm::Intrinsic::sqrt, x[0]);
    case LoopOp::Floor:
      return l.intrinsic(llvm::Intrinsic::floor, x[0]);
    case LoopOp::Ceil:
      return l.intrinsic(llvm::Intrinsic::ceil, x[0]);
    case LoopOp::Trunc:
      return l.intrinsic(llvm::Intrinsic::trunc, x[0]);
    case LoopOp::Rint:
      return l.intrinsic(llvm::Intrinsic::rint, x[0]);
    case LoopOp::Exp:
    case LoopOp::Log:
    case LoopOp::Sin:
    case LoopOp::Cos:
    case LoopOp::Tanh:
    case LoopOp::Expm1:
    case LoopOp::Log1p:
    case LoopOp::Exp2:
    case LoopOp::Log2:
    case LoopOp::Log10:
    case LoopOp::Tan:
    case LoopOp::Asin:
    case LoopOp::Acos:
    case LoopOp::Atan:
    case LoopOp::Sinh:
    case LoopOp::Cosh:
    case LoopOp::Erf:
      return emit_math(l, expr.op, x[0]);
    case LoopOp::Add:
      return floats ? l.b.CreateFAdd(x[0], x[1]) : l.b.CreateAdd(x[0], x[1]);
    case LoopOp::Sub:
      return floats ? l.b.CreateFSub(x[0], x[1]) : l.b.CreateSub(x[0], x[1]);
    case LoopOp::Mul:
      return floats ? l.b.CreateFMul(x[0], x[1]) : l.b.CreateMul(x[0], x[1]);
    case LoopOp::Div:
      return l.b.CreateFDiv(x[0], x[1]);
    case LoopOp::Quotient:
      return emit_quotient(l, x[0], x[1]);
    case LoopOp::Max:
    case LoopOp::Min:
      return emit_extreme(l, expr.op, floats, x[0], x[1]);
    case LoopOp::And:
      return l.b.CreateAnd(x[0], x[1]);
    case LoopOp::Or:
      return l.b.CreateOr(x[0], x[1]);
    case LoopOp::Xor:
      return l.b.CreateXor(x[0], x[1]);
    case LoopOp::Eq:
    case LoopOp::Ne:
    case LoopOp::Lt:
    case LoopOp::Le:
    case LoopOp::Gt:
    case LoopOp::Ge:
      return emit_compare(l, expr.op, computed_as(kernel.type(expr.operands[0])), x[0], x[1]);
    case LoopOp::Fma:
      return l.fma(x[0], x[1], x[2]);
    case LoopOp::Select:
      return l.b.CreateSelect(x[0], x[1], x[2]);
  }
  return nullptr;
}

namespace {

// The machine loads some lanes of a vector without touching the others.
bool has_masks(const Lanes& l, Element type) {
  return l.target == Target::Avx512 || (l.target == Target::Avx2 && element_bytes(type) >= 4);
}

// Two loads side by side, the second from one element earlier so that nothing beyond the last element is read.
Value* emit_every_second(const Lanes& l, llvm::Type* element, Value* from, Value* mask) {
  const int width = static_cast<int>(l.width);
  llvm::Type* vector = l.vector(element);
  const llvm::Align align(element->getScalarSizeInBits() / 8);
  auto load = [&](Value* at, const std::vector<int>& lanes) -> Value* {
    if (!mask) return l.b.CreateAlignedLoad(vector, at, align);
    Value* none = llvm::Constant::getNullValue(mask->getType());
    return l.b.CreateMaskedLoad(vector, at, align, l.b.CreateShuffleVector(mask, none, lanes),
                                llvm::Constant::getNullValue(vector));
  };
  std::vector<int> low(width), high(width), order(width);
  for (int lane = 0; lane < width; ++lane) {
    low[lane] = lane % 2 ? width : lane / 2;
    high[lane] = lane % 2 ? (lane + width - 1) / 2 : width;
    order[lane] = lane < width / 2 ? 2 * lane : 2 * lane + 1;
  }
  Value* first = load(from, low);
  Value* second = load(l.b.CreateConstGEP1_64(element, from, static_cast<uint64_t>(width - 1)), high);
  return l.b.CreateShuffleVector(first, second, order);
}

}  // namespace

Value* emit_load(const Lanes& l, Element type, Value* from, Value* stride, Value* mask) {
  llvm::Type* element = l.memory_element(type);
  llvm::Type* vector = l.vector(element);
  const llvm::Align align(element_bytes(type));
  if (is_number(stride, 0)) return widen(l, l.splat(l.b.CreateAlignedLoad(element, from, align)), type);
  if (is_number(stride, -1)) {
    Value* lowest = l.b.CreateConstGEP1_64(element, from, uint64_t{1} - l.width);
    return turned(l, emit_load(l, type, lowest, l.b.getInt64(1), mask ? turned(l, mask) : nullptr));
  }
  if (is_number(stride, 2) && (!mask || has_masks(l, type)))
    return widen(l, emit_every_second(l, element, from, mask), type);
  if (!is_number(stride, 1)) return emit_gather(l, type, addresses(l, type, from, stride), mask);
  if (!mask) return widen(l, l.b.CreateAlignedLoad(vector, from, align), type);
  return widen(l, l.b.CreateMaskedLoad(vector, from, align, mask, llvm::Constant::getNullValue(vector)), type);
}

Value* emit_load_at(const Lanes& l, Element type, Value* from, Value* stride, Value* further, bool uniform,
                    Value* mask) {
  if (!uniform) return emit_gather(l, type, addresses(l, type, from, stride, further), mask);
  Value* step = l.b.CreateExtractElement(further, uint64_t{0});
  return emit_load(l, type, l.b.CreateInBoundsGEP(l.memory_element(type), from, step), stride, mask);
}

Value* emit_load_if(const Lanes& l, Element type, Value* from, Value* stride, Value* inside, bool uniform,
                    Value* mask) {
  Value* lanes = mask ? l.b.CreateAnd(inside, mask) : inside;
  auto some = [&] {
    if (is_number(stride, 0)) return emit_gather(l, type, addresses(l, type, from, stride), lanes);
    return emit_load(l, type, from, stride, lanes);
  };
  // A masked load that the machine does not have goes lane by lane. Most vectors are all inside, or all outside.
  if (has_masks(l, type) && (is_number(stride, 1) || is_number(stride, 2)) && !uniform) return some();
  llvm::Function* function = l.b.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(l.module.getContext(), name, function); };
  llvm::BasicBlock *whole = block("inside"), *others = block("others"), *part = block("part"), *after = block("after");
  Value* bits = l.b.CreateBitCast(lanes, l.b.getIntNTy(l.width));
  l.b.CreateCondBr(l.b.CreateICmpEQ(bits, llvm::Constant::getAllOnesValue(bits->getType())), whole, others);
  l.b.SetInsertPoint(whole);
  Value* all = emit_load(l, type, from, stride, nullptr);
  llvm::BasicBlock* whole_end = l.b.GetInsertBlock();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(others);
  l.b.CreateCondBr(l.b.CreateICmpEQ(bits, llvm::Constant::getNullValue(bits->getType())), after, part);
  l.b.SetInsertPoint(part);
  Value* masked = some();
  llvm::BasicBlock* part_end = l.b.GetInsertBlock();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(after);
  llvm::PHINode* result = l.b.CreatePHI(all->getType(), 3);
  result->addIncoming(all, whole_end);
  result->addIncoming(llvm::Constant::getNullValue(all->getType()), others);
  result->addIncoming(masked, part_end);
  return result;
}

void emit_store(const Lanes& l, Element type, Value* value, Value* to, Value* stride, Value* mask) {
  const llvm::Align align(element_bytes(type));
  if (is_number(stride, -1)) {
    Value* lowest = l.b.CreateConstGEP1_64(l.memory_element(type), to, uint64_t{1} - l.width);
    return emit_store(l, type, turned(l, value), lowest, l.b.getInt64(1), mask ? turned(l, mask) : nullptr);
  }
  Value* stored = narrow(l, value, type);
  if (!is_number(stride, 1)) {
    l.b.CreateMaskedScatter(stored, addresses(l, type, to, stride), align, mask ? mask : l.all_lanes());
  } else if (mask) {
    l.b.CreateMaskedStore(stored, to, align, mask);
  } else {
    l.b.CreateAlignedStore(stored, to, align);
  }
}

Value* emit_lanes_below(const Lanes& l, Value* count) {
  Value* limit = l.splat(l.b.CreateTrunc(count, l.b.getInt32Ty()));
  return l.b.CreateICmpSLT(l.b.CreateStepVector(l.i32()), limit);
}

llvm::Function* begin_kernel(const Lanes& l, const std::string& name) {
  llvm::Type* arguments[] = {l.b.getPtrTy(), l.b.getInt64Ty(), l.b.getInt64Ty()};
  auto* type = llvm::FunctionType::get(l.b.getVoidTy(), arguments, false);
  llvm::Function* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, l.module);
  function->setDoesNotThrow();
  const std::string bits = std::to_string(vector_bytes(l.target) * 8);
  function->addFnAttr("prefer-vector-width", bits);
  function->addFnAttr("min-legal-vector-width", bits);
  l.b.SetInsertPoint(llvm::BasicBlock::Create(l.module.getContext(), "entry", function));
  return function;
}

void emit_loop(const Lanes& l, Value* begin, Value* end, Value* step, const std::function<Value*(Value*)>& body) {
  const auto *first = llvm::dyn_cast<llvm::ConstantInt>(begin), *last = llvm::dyn_cast<llvm::ConstantInt>(end);
  const auto* by = llvm::dyn_cast_or_null<llvm::ConstantInt>(step);
  if (first && last && first->getSExtValue() >= last->getSExtValue()) return;
  if (first && last && by && first->getSExtValue() + by->getSExtValue() >= last->getSExtValue()) {
    body(begin);
    return;
  }
  llvm::Function* function = l.b.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(l.module.getContext(), name, function); };
  llvm::BasicBlock *before = l.b.GetInsertBlock(), *inside = block("loop"), *after = block("after");
  l.b.CreateCondBr(l.b.CreateICmpSLT(begin, end), inside, after);
  l.b.SetInsertPoint(inside);
  llvm::PHINode* i = l.b.CreatePHI(l.b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  Value* taken = body(i);
  Value* next = l.b.CreateAdd(i, step ? step : taken);
  i->addIncoming(next, l.b.GetInsertBlock());
  l.b.CreateCondBr(l.b.CreateICmpSLT(next, end), inside, after);
  l.b.SetInsertPoint(after);
}

unsigned lanes_of(const LoopKernel& kernel, Target target) {
  for (const LoopExpr& expr : kernel.exprs) {
    const Element type = computed_as(expr.type);
    if (type == Element::F32 || type == Element::I32) return static_cast<unsigned>(vector_bytes(target)) / 4;
  }
  return static_cast<unsigned>(vector_bytes(target)) / 8;
}

}  // namespace firesteel::cpu
