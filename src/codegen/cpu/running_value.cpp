// Within a vector by shuffles: each lane takes in the one 1, 2, 4 … before it.
#include "codegen/cpu/running_value.h"

namespace firesteel::cpu {

using llvm::Value;

RunningValue::RunningValue(const Lanes& lanes, LoopOp op, Element type, bool in_order)
    : l_(lanes),
      in_order_(in_order),
      carried_(lanes, op == LoopOp::RunSum ? LoopOp::RowSum : LoopOp::RowProduct, type, 1, false) {}

void RunningValue::reset() const { carried_.reset(); }

Value* RunningValue::along_in_order(Value* points) const {
  Value *sum = carried_.slot_total(0), *result = points;
  for (uint64_t lane = 0; lane < l_.width; ++lane) {
    sum = carried_.combine(sum, l_.splat(l_.b.CreateExtractElement(points, lane)));
    result = l_.b.CreateInsertElement(result, l_.b.CreateExtractElement(sum, uint64_t{0}), lane);
  }
  carried_.set(0, sum);
  return result;
}

Value* RunningValue::along(Value* points) const {
  if (in_order_) return along_in_order(points);
  for (unsigned before = 1; before < l_.width; before *= 2) {
    std::vector<int> order(l_.width);
    for (unsigned lane = 0; lane < l_.width; ++lane)
      order[lane] = static_cast<int>(lane < before ? l_.width + lane : lane - before);
    points = carried_.combine(points, l_.b.CreateShuffleVector(points, carried_.identity(), order));
  }
  // What is carried on waits for one operation a vector only.
  Value* result = carried_.combine(carried_.slot_total(0), points);
  const std::vector<int> last(l_.width, static_cast<int>(l_.width) - 1);
  carried_.add(0, l_.b.CreateShuffleVector(points, last), nullptr);
  return result;
}

Value* RunningValue::across(Value* rows) const {
  carried_.add(0, rows, nullptr);
  return carried_.slot_total(0);
}

}  // namespace firesteel::cpu
