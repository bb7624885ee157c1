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
    if (in_blocks) total_.push_back(stack_slot(l_, vector));
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
  const bool larger = op_ == LoopOp::RowMax;
  if (!floats) return l_.b.CreateBinaryIntrinsic(larger ? llvm::Intrinsic::smax : llvm::Intrinsic::smin, a, x);
  // The machine's instruction gives its second operand where either is NaN: the running value, which so keeps NaN.
  Value* pick = l_.b.CreateSelect(larger ? l_.b.CreateFCmpOGT(x, a) : l_.b.CreateFCmpOLT(x, a), x, a);
  return l_.b.CreateSelect(l_.b.CreateFCmpUNO(x, x), x, pick);
}

void Accumulator::reset() const {
  for (Value* slot : block_) l_.b.CreateStore(identity(), slot);
  for (Value* slot : total_) l_.b.CreateStore(identity(), slot);
}

void Accumulator::add(int64_t slot, Value* value, Value* mask) const {
  Value* a = l_.b.CreateLoad(value->getType(), block_[slot]);
  Value* sum = combine(a, value);
  l_.b.CreateStore(mask ? l_.b.CreateSelect(mask, sum, a) : sum, block_[slot]);
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
  if (total_.empty()) return made;
  return combine(l_.b.CreateLoad(made->getType(), total_[slot]), made);
}

Value* Accumulator::total() const {
  std::vector<Value*> parts;
  for (size_t u = 0; u < block_.size(); ++u) parts.push_back(slot_total(static_cast<int64_t>(u)));
  while (parts.size() > 1) {
    std::vector<Value*> halves;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) halves.push_back(combine(parts[i], parts[i + 1]));
    if (parts.size() % 2) halves.push_back(parts.back());
    parts = std::move(halves);
  }
  return across_lanes(parts.front());
}

Value* Accumulator::across_lanes(Value* vector) const {
  for (unsigned half = l_.width / 2; half; half /= 2) {
    std::vector<int> order(l_.width);
    for (unsigned lane = 0; lane < l_.width; ++lane) order[lane] = static_cast<int>(lane ^ half);
    vector = combine(vector, l_.b.CreateShuffleVector(vector, order));
  }
  return vector;
}

}  // namespace firesteel::cpu
