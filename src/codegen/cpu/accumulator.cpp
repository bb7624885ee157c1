// Combining values of a reduction, lane by lane and across lanes.
#include "codegen/cpu/accumulator.h"

#include <limits>

namespace firesteel::cpu {
namespace {

using llvm::Value;

llvm::Value* stack_slot(const Lanes& l, llvm::Type* type) {
  llvm::BasicBlock& entry = l.b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(type);
}

}  // namespace

Accumulator::Accumulator(const Lanes& lanes, LoopOp op, Element type, int64_t unrolled, bool in_blocks)
    : l_(lanes), op_(op), type_(computed_as(type)) {
  llvm::Type* vector = l_.vector(l_.element(type_));
  for (int64_t u = 0; u < unrolled; ++u) {
    block_.push_back(stack_slot(l_, vector));
    if (in_blocks && (op == LoopOp::RowSum || op == LoopOp::RowProduct)) total_.push_back(stack_slot(l_, vector));
    if (keeps_nan()) nan_.push_back(stack_slot(l_, l_.vector(l_.b.getInt1Ty())));
  }
}

Value* Accumulator::identity() const {
  llvm::Type* vector = l_.vector(l_.element(type_));
  const bool floats = is_float(type_), is_long = type_ == Element::I64;
  constexpr double inf = std::numeric_limits<double>::infinity();
  using Int = std::numeric_limits<int32_t>;
  using Long = std::numeric_limits<int64_t>;
  switch (op_) {
    case LoopOp::RowProduct:
      return floats ? l_.number(vector, 1) : l_.integer(vector, 1);
    case LoopOp::RowMax:
      return floats ? l_.number(vector, -inf) : l_.integer(vector, is_long ? Long::min() : Int::min());
    case LoopOp::RowMin:
      return floats ? l_.number(vector, inf) : l_.integer(vector, is_long ? Long::max() : Int::max());
    case LoopOp::RowAll:
      return llvm::Constant::getAllOnesValue(vector);
    default:
      return llvm::Constant::getNullValue(vector);
  }
}

Value* Accumulator::combine(Value* a, Value* x) const {
  const bool floats = is_float(type_);
  switch (op_) {
    case LoopOp::RowSum:
      return floats ? l_.b.CreateFAdd(a, x) : l_.b.CreateAdd(a, x);
    case LoopOp::RowProduct:
      return floats ? l_.b.CreateFMul(a, x) : l_.b.CreateMul(a, x);
    case LoopOp::RowAny:
      return l_.b.CreateOr(a, x);
    case LoopOp::RowAll:
      return l_.b.CreateAnd(a, x);
    default:
      break;
  }
  // The running value keeps NaN.
  return keeps_nan() ? l_.b.CreateSelect(l_.is_nan(x), x, pick(a, x)) : pick(a, x);
}

// The machine's instruction for floats: its second operand, the running value, where either is NaN.
Value* Accumulator::pick(Value* a, Value* x) const {
  if (op_ != LoopOp::RowMax && op_ != LoopOp::RowMin) return combine(a, x);
  const bool larger = op_ == LoopOp::RowMax;
  if (!is_float(type_)) return l_.b.CreateBinaryIntrinsic(larger ? llvm::Intrinsic::smax : llvm::Intrinsic::smin, a, x);
  return l_.b.CreateSelect(larger ? l_.b.CreateFCmpOGT(x, a) : l_.b.CreateFCmpOLT(x, a), x, a);
}

void Accumulator::reset() const {
  for (Value* slot : block_) l_.b.CreateStore(identity(), slot);
  for (Value* slot : total_) l_.b.CreateStore(identity(), slot);
  for (Value* slot : nan_) l_.b.CreateStore(llvm::Constant::getNullValue(l_.vector(l_.b.getInt1Ty())), slot);
}

void Accumulator::add(int64_t slot, Value* value, Value* mask) const {
  Value* a = l_.b.CreateLoad(value->getType(), block_[slot]);
  Value* sum = pick(a, value);
  l_.b.CreateStore(mask ? l_.b.CreateSelect(mask, sum, a) : sum, block_[slot]);
  if (nan_.empty()) return;
  Value* here = mask ? l_.b.CreateAnd(mask, l_.is_nan(value)) : l_.is_nan(value);
  l_.b.CreateStore(l_.b.CreateOr(l_.b.CreateLoad(here->getType(), nan_[slot]), here), nan_[slot]);
}

void Accumulator::end_block() const {
  for (size_t u = 0; u < total_.size(); ++u) {
    Value* made = l_.b.CreateLoad(identity()->getType(), block_[u]);
    Value* total = l_.b.CreateLoad(made->getType(), total_[u]);
    l_.b.CreateStore(combine(total, made), total_[u]);
    l_.b.CreateStore(identity(), block_[u]);
  }
}

Value* Accumulator::slot_total(int64_t slot) const {
  Value* made = l_.b.CreateLoad(identity()->getType(), block_[slot]);
  if (!nan_.empty()) {
    Value* met = l_.b.CreateLoad(l_.vector(l_.b.getInt1Ty()), nan_[slot]);
    return l_.b.CreateSelect(met, llvm::ConstantFP::getNaN(made->getType()), made);
  }
  if (total_.empty()) return made;
  return combine(l_.b.CreateLoad(made->getType(), total_[slot]), made);
}

Value* Accumulator::total() const {
  std::vector<Value*> parts, met;
  for (size_t u = 0; u < block_.size(); ++u) {
    if (nan_.empty()) {
      parts.push_back(slot_total(static_cast<int64_t>(u)));
    } else {
      parts.push_back(l_.b.CreateLoad(identity()->getType(), block_[u]));
      met.push_back(l_.b.CreateLoad(l_.vector(l_.b.getInt1Ty()), nan_[u]));
    }
  }
  while (parts.size() > 1) {
    std::vector<Value*> halves;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) halves.push_back(pick(parts[i], parts[i + 1]));
    if (parts.size() % 2) halves.push_back(parts.back());
    parts = std::move(halves);
  }
  Value* made = across_lanes(parts.front());
  if (met.empty()) return made;
  for (size_t u = 1; u < met.size(); ++u) met[0] = l_.b.CreateOr(met[0], met[u]);
  return l_.b.CreateSelect(l_.b.CreateOrReduce(met[0]), llvm::ConstantFP::getNaN(made->getType()), made);
}

Value* Accumulator::across_lanes(Value* vector) const {
  for (unsigned half = l_.width / 2; half; half /= 2) {
    std::vector<int> order(l_.width);
    for (unsigned lane = 0; lane < l_.width; ++lane) order[lane] = static_cast<int>(lane ^ half);
    vector = pick(vector, l_.b.CreateShuffleVector(vector, order));
  }
  return vector;
}

}  // namespace firesteel::cpu
