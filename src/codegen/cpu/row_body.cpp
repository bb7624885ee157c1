// Values of points and rows at the current indices, and rows in chunks.
#include "codegen/cpu/row_body.h"

#include <algorithm>

#include "codegen/cpu/near_load.h"
#include "fuse/size_math.h"

namespace firesteel::cpu {

using llvm::Value;

RowBody::RowBody(const LoopKernel& kernel, const RowPlan& plan, size_t lane_loop, Target target, llvm::Module& module)
    : kernel_(kernel),
      plan_(plan),
      b_(module.getContext()),
      l_{module, b_, target, lanes_of(kernel, target)},
      lane_loop_(lane_loop),
      varies_(kernel.varying(lane_loop)),
      index_(kernel.sizes.size(), nullptr) {}

Value* RowBody::stack_bytes(int64_t bytes) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  auto* slot = at_entry.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), static_cast<uint64_t>(bytes) + 64));
  slot->setAlignment(llvm::Align(64));
  return slot;
}

void RowBody::emit(const std::string& name) {
  llvm::Function* function = begin_kernel(l_, name);
  size_t next = 0;
  auto next_pointer = [&] {
    Value* place = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function->getArg(0), next++);
    return b_.CreateLoad(b_.getPtrTy(), place);
  };
  while (next < kernel_.buffers.size()) buffers_.push_back(next_pointer());
  sizes_.emplace(l_, kernel_, function->getArg(0), next, plan_.cut == RowPlan::Cut::AsCalled ? 2 : 0);
  if (kernel_.is_open()) ++next;
  if (plan_.chunks()) chunk_memory_ = next_pointer();
  if (const int64_t bytes = plan_.kept_bytes_a_point(kernel_)) {
    const Dim length = kernel_.row_length();
    kept_ = length.is_number() ? stack_bytes(bytes * length.number()) : next_pointer();
  }
  Value *begin = function->getArg(1), *end = function->getArg(2);
  if (plan_.cut == RowPlan::Cut::AsCalled) {
    emit_cut(begin, end);
  } else if (plan_.chunks()) {
    emit_chunks(begin, end);
  } else {
    emit_rows(begin, end);
  }
  b_.CreateRetVoid();
}

// Whole rows where the call gives no chunks.
void RowBody::emit_cut(Value* begin, Value* end) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(l_.module.getContext(), name, function); };
  llvm::BasicBlock *whole = block("whole"), *cut = block("cut"), *after = block("after");
  b_.CreateCondBr(b_.CreateICmpEQ(chunk_count(), n(0)), whole, cut);
  b_.SetInsertPoint(whole);
  emit_rows(begin, end);
  b_.CreateBr(after);
  b_.SetInsertPoint(cut);
  emit_chunks(begin, end);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Chunks RowBody::fixed_chunks() const {
  return chunks_of(plan_, kernel_.rows().number(), kernel_.row_length().number(),
                   kernel_.sizes[kernel_.row_loops()].number());
}
Value* RowBody::chunk_steps() {
  return plan_.cut == RowPlan::Cut::AsCalled ? sizes_->further(0) : n(fixed_chunks().steps);
}
Value* RowBody::chunk_count() {
  return plan_.cut == RowPlan::Cut::AsCalled ? sizes_->further(1) : n(fixed_chunks().count);
}

Value* RowBody::whole_steps(Value* begin, Value* end, int64_t step) {
  Value* count = b_.CreateSub(end, begin);
  return b_.CreateAdd(begin, b_.CreateSub(count, b_.CreateURem(count, n(step))));
}

// More than one chain in flight, as long as the registers last.
int64_t RowBody::unrolling(const Dim& length, int pass) const {
  int64_t heavy = 0;
  for (ExprId id : plan_.needed[pass]) heavy += !plan_.per_row[id] && is_transcendental(kernel_.exprs[id].op);
  int64_t unrolled = heavy || plan_.needed[pass].size() > 24 ? 2 : 4;
  const auto sums = static_cast<int64_t>(plan_.reductions[pass].size());
  const int64_t registers = l_.target == Target::Avx512 ? 16 : 8;
  auto is_long = [&] { return !length.is_number() || unrolled * l_.width <= length.number(); };
  while (unrolled > 1 && (!is_long() || unrolled * sums > registers)) unrolled /= 2;
  return unrolled;
}

// The indices of the loops [first, last) from their common number.
void RowBody::number_to_indices(Value* number, size_t first, size_t last) {
  for (size_t d = last; d-- > first;) {
    index_[d] = d == first ? number : b_.CreateURem(number, steps_of(d));
    if (d != first) number = b_.CreateUDiv(number, steps_of(d));
  }
}

// Dividing by what is no constant takes as long as a few vectors: there indices count up from row to row.
void RowBody::each_row(Value* begin, Value* end, const std::function<void(Value*)>& body) {
  const size_t loops = kernel_.row_loops();
  bool divides = false;
  for (size_t d = 1; d < loops; ++d) divides = divides || !kernel_.sizes[d].is_number();
  std::vector<Value*> slots;
  if (divides) {
    number_to_indices(begin, 0, loops);
    for (size_t d = 0; d < loops; ++d) {
      slots.push_back(stack_bytes(sizeof(int64_t)));
      b_.CreateStore(index_[d], slots[d]);
    }
  }
  emit_loop(l_, begin, end, n(1), [&](Value* number) {
    if (!divides) number_to_indices(number, 0, loops);
    for (size_t d = 0; d < slots.size(); ++d) index_[d] = b_.CreateLoad(b_.getInt64Ty(), slots[d]);
    body(number);
    Value* carry = b_.getTrue();
    for (size_t d = slots.size(); d-- > 0;) {
      Value* next = b_.CreateAdd(index_[d], n(1));
      Value* full = d ? b_.CreateICmpEQ(next, steps_of(d)) : b_.getFalse();
      b_.CreateStore(b_.CreateSelect(carry, b_.CreateSelect(full, n(0), next), index_[d]), slots[d]);
      carry = b_.CreateAnd(carry, full);
    }
    return nullptr;
  });
}

// Elements from the buffer's start to the current indices; the loop of the lanes starts at `lane`.
Value* RowBody::offset(const IndexMap& map, Value* lane) {
  Value* at = n(map.offset);
  for (size_t d = 0; d < index_.size(); ++d) {
    if (d == lane_loop_ || firesteel::is_number(map.strides[d], 0) || !index_[d]) continue;
    at = b_.CreateAdd(at, b_.CreateMul(index_[d], n(map.strides[d])));
  }
  return b_.CreateAdd(at, b_.CreateMul(lane, n(map.strides[lane_loop_])));
}
// Addresses are built so that all but the last step is the same along the innermost loop.
Value* RowBody::place(const IndexMap& map, int32_t buffer, Value* lane) {
  llvm::Type* element = l_.memory_element(kernel_.buffers[buffer]);
  Value* row = b_.CreateGEP(element, buffers_[buffer], offset(map, n(0)));
  return b_.CreateGEP(element, row, b_.CreateMul(lane, n(map.strides[lane_loop_])));
}

// An expression's value at a vector of points or rows, its operands in `values`.
Value* RowBody::evaluate(const LoopExpr& expr, const RowValues& values, Value* lane, Value* mask) {
  if (expr.op == LoopOp::Size) return l_.splat(n(expr.size));
  Value* stride = expr.map.strides.empty() ? n(0) : n(expr.map.strides[lane_loop_]);
  if (expr.op == LoopOp::Load) return emit_load(l_, expr.type, place(expr.map, expr.buffer, lane), stride, mask);
  if (expr.op == LoopOp::Index) return l_.counting(offset(expr.map, lane), stride);
  Value* operands[3] = {};
  for (int k = 0; k < operand_count(expr.op); ++k) operands[k] = values[expr.operands[k]];
  if (expr.op == LoopOp::LoadAt) {
    Value* from = place(expr.map, expr.buffer, lane);
    return emit_load_at(l_, expr.type, from, stride, operands[0], !varies_[expr.operands[0]], mask);
  }
  if (expr.op == LoopOp::LoadNear) {
    const NearLoad load{expr.type, place(expr.map, expr.buffer, lane), stride, operands[0], operands[1], mask};
    return emit_load_near(l_, load, !varies_[expr.operands[0]], kernel_.counts_by_one(expr.operands[1], lane_loop_));
  }
  if (expr.op == LoopOp::LoadIf) {
    Value* from = place(expr.map, expr.buffer, lane);
    return emit_load_if(l_, expr.type, from, stride, operands[0], !varies_[expr.operands[0]], mask);
  }
  return emit_expr(l_, kernel_, expr, operands);
}

// Values of rows that `done` passes make known, each at lane `lane` where lanes are rows.
void RowBody::find_row_values(RowValues& values, int done, Value* lane, Value* mask) {
  for (ExprId id : plan_.row_values) {
    if (plan_.pass[id] != done || values[id] || is_reduction(kernel_.exprs[id].op)) continue;
    values[id] = evaluate(kernel_.exprs[id], values, lane, mask);
  }
}

Value* RowBody::kept_place(ExprId id, Value* position) {
  int64_t bytes = 0;
  for (ExprId other : plan_.kept) {
    if (other == id) break;
    bytes += element_bytes(computed_as(kernel_.type(other)));
  }
  Value* start = b_.CreateInBoundsGEP(b_.getInt8Ty(), kept_, b_.CreateMul(row_length(), n(bytes)));
  return b_.CreateInBoundsGEP(l_.element(kernel_.type(id)), start, position);
}

// One vector of points in one pass. `position` counts the points of a row.
void RowBody::emit_points(int pass, const std::vector<Accumulator>& sums, int64_t slot, const RowValues& row,
                          Value* lane, Value* position, Value* mask) {
  RowValues values = row;
  for (ExprId id : plan_.needed[pass]) {
    if (values[id]) continue;
    const int kept_from = plan_.kept_from(id);
    if (kept_from >= 0 && kept_from < pass) {
      values[id] = emit_load(l_, computed_as(kernel_.type(id)), kept_place(id, position), n(1), mask);
      continue;
    }
    const LoopExpr& expr = kernel_.exprs[id];
    if (is_running(expr.op)) {
      Value* next = values[expr.operands[0]];
      values[id] = plan_.across ? running_.at(id)[slot].across(next) : running_.at(id).front().along(next);
    } else {
      values[id] = evaluate(expr, values, lane, mask);
    }
    if (kept_from == pass)
      emit_store(l_, computed_as(kernel_.type(id)), values[id], kept_place(id, position), n(1), mask);
  }
  for (size_t r = 0; r < sums.size(); ++r) {
    const ExprId id = plan_.reductions[pass][r];
    sums[r].add(slot, values[kernel_.exprs[id].operands[0]], mask);
  }
  for (size_t s : plan_.stores[pass]) {
    const LoopStore& store = kernel_.stores[s];
    emit_store(l_, kernel_.buffers[store.buffer], values[store.value], place(store.map, store.buffer, lane),
               n(store.map.strides[lane_loop_]), mask);
  }
}

std::vector<Accumulator> RowBody::accumulators(int pass, int64_t unrolled, bool in_blocks) {
  std::vector<Accumulator> sums;
  for (ExprId id : plan_.reductions[pass]) {
    const LoopExpr& expr = kernel_.exprs[id];
    sums.emplace_back(l_, expr.op, expr.type, unrolled, in_blocks);
    sums.back().reset();
  }
  return sums;
}

void RowBody::start_running(int pass, int64_t slots) {
  running_.clear();
  for (ExprId id : plan_.needed[pass]) {
    const LoopExpr& expr = kernel_.exprs[id];
    if (!is_running(expr.op)) continue;
    // A sum of whole numbers, or of floats of a narrower type, is the same in any order, or nearly; no part of it alone
    // is infinite.
    const LoopExpr& point = kernel_.exprs[expr.operands[0]];
    const bool from_narrow =
        point.op == LoopOp::Cast && (kernel_.type(point.operands[0]) == Element::F16 ||
                                     (expr.type == Element::F64 && kernel_.type(point.operands[0]) == Element::F32));
    const bool in_order = expr.op == LoopOp::RunProduct || (is_float(expr.type) && !from_narrow);
    for (int64_t slot = 0; slot < slots; ++slot) {
      running_[id].emplace_back(l_, expr.op, expr.type, in_order);
      running_[id].back().reset();
    }
  }
}

void RowBody::nest(size_t d, size_t last, Value* begin, Value* end, const std::function<void(Value*, Value*)>& body) {
  if (d == last) {
    body(begin, end);
    return;
  }
  emit_loop(l_, begin, end, n(1), [&](Value* i) {
    index_[d] = i;
    nest(d + 1, last, n(0), steps_of(d + 1), body);
    return nullptr;
  });
}

// What a chunk made of a reduction: 8 bytes a row, packed by the element's own size.
Value* RowBody::chunk_place(Value* chunk, size_t reduction, Element type, Value* row) {
  Value* slot = b_.CreateAdd(b_.CreateMul(chunk, n(static_cast<int64_t>(plan_.reduction_count))),
                             n(static_cast<int64_t>(reduction)));
  Value* start = b_.CreateInBoundsGEP(b_.getInt64Ty(), chunk_memory_, b_.CreateMul(slot, rows()));
  return b_.CreateInBoundsGEP(l_.memory_element(type), start, row);
}

void RowBody::emit_chunks(Value* begin, Value* end) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(l_.module.getContext(), name, function); };
  llvm::BasicBlock *work = block("work"), *finish = block("finish"), *done = block("done");
  b_.CreateCondBr(b_.CreateICmpSLT(begin, n(0)), finish, work);
  b_.SetInsertPoint(work);
  emit_loop(l_, begin, end, n(1), [&](Value* chunk) {
    Value* from = b_.CreateMul(chunk, chunk_steps());
    Value* to = smaller(b_.CreateAdd(from, chunk_steps()), steps_of(kernel_.row_loops()));
    emit_chunk(chunk, from, to);
    return nullptr;
  });
  b_.CreateBr(done);
  b_.SetInsertPoint(finish);
  finish_rows();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

void RowBody::store_row(const RowValues& row, Value* column) {
  for (const LoopStore& store : kernel_.stores) {
    if (!store.per_row) continue;
    const Element type = kernel_.buffers[store.buffer];
    Value* one = b_.CreateExtractElement(narrow(l_, row[store.value], type), b_.getInt64(0));
    b_.CreateAlignedStore(one, place(store.map, store.buffer, column), llvm::Align(element_bytes(type)));
  }
}

}  // namespace firesteel::cpu
