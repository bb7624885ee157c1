// What kernels with reductions share in both directions: addresses, values of points and rows, chunks.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "codegen/cpu/accumulator.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/running_value.h"
#include "fuse/row_plan.h"

namespace firesteel::cpu {

class RowBody {
 public:
  // The loop that vectors lie along: the last of a row, or the last over rows.
  RowBody(const LoopKernel& kernel, const RowPlan& plan, size_t lane_loop, Target target, llvm::Module& module);
  virtual ~RowBody() = default;

  void emit(const std::string& name);

 protected:
  using Value = llvm::Value;
  using RowValues = std::vector<Value*>;  // by expression; null where not known

  virtual void emit_rows(Value* begin, Value* end) = 0;
  // The steps [from, to) of the first reduced loop, of all rows.
  virtual void emit_chunk(Value* chunk, Value* from, Value* to) = 0;
  // Chunks together, in their order, then what is computed of them.
  virtual void finish_rows() = 0;

  Value* n(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* smaller(Value* a, Value* c) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, c); }
  Value* n(const Dim& dim) { return (*sizes_)(dim); }
  Value* steps_of(size_t loop) { return n(kernel_.sizes[loop]); }
  Value* rows() { return sizes_->product(0, kernel_.row_loops()); }
  Value* row_length() { return sizes_->product(kernel_.row_loops(), kernel_.sizes.size()); }
  // The part of [begin, end) that is whole steps, up to its end.
  Value* whole_steps(Value* begin, Value* end, int64_t step);

  int64_t unrolling(const Dim& length, int pass) const;
  void number_to_indices(Value* number, size_t first, size_t last);
  // `body(number)` at each row of [begin, end), with the indices of its loops.
  void each_row(Value* begin, Value* end, const std::function<void(Value*)>& body);
  Value* offset(const IndexMap& map, Value* lane);
  Value* place(const IndexMap& map, int32_t buffer, Value* lane);
  void find_row_values(RowValues& values, int done, Value* lane, Value* mask);
  void emit_points(int pass, const std::vector<Accumulator>& sums, int64_t slot, const RowValues& row, Value* lane,
                   Value* position, Value* mask);
  std::vector<Accumulator> accumulators(int pass, int64_t unrolled, bool in_blocks);
  void start_running(int pass, int64_t slots);  // what carries from point to point, at the start of rows
  // The reduced loops [d, last), each over all of its steps but the first, which may be cut to a chunk.
  void nest(size_t d, size_t last, Value* begin, Value* end, const std::function<void(Value*, Value*)>& body);
  void store_row(const RowValues& row, Value* column);  // of one row, the same in every lane
  Value* chunk_count();
  Value* chunk_place(Value* chunk, size_t reduction, Element type, Value* row);
  Element chunk_type(ExprId id) const { return computed_as(kernel_.type(id)); }
  Value* stack_bytes(int64_t bytes);

  static constexpr int64_t kBlock = 16;  // steps of a sum between totals
  // A row of which so many points are a step, where what is made of it is rounded at every one.
  bool needs_blocks(int pass, int64_t points) const {
    const Dim length = kernel_.row_length();
    const std::vector<ExprId>& made = plan_.reductions[pass];
    return (!length.is_number() || length.number() / points > 2 * kBlock) &&
           std::any_of(made.begin(), made.end(), [&](ExprId id) {
             const LoopExpr& expr = kernel_.exprs[id];
             return is_float(expr.type) && (expr.op == LoopOp::RowSum || expr.op == LoopOp::RowProduct);
           });
  }

  const LoopKernel& kernel_;
  const RowPlan& plan_;
  llvm::IRBuilder<> b_;
  Lanes l_;
  const size_t lane_loop_;
  const std::vector<bool> varies_;  // by expression: along the loop of the lanes
  std::optional<SizeValues> sizes_;
  std::vector<Value*> buffers_;
  std::vector<Value*> index_;                                      // of each loop, but that of the lanes
  std::unordered_map<ExprId, std::vector<RunningValue>> running_;  // of the current pass, by slot

 private:
  Value* evaluate(const LoopExpr& expr, const RowValues& values, Value* lane, Value* mask);
  Value* kept_place(ExprId id, Value* position);
  void emit_chunks(Value* begin, Value* end);
  void emit_cut(Value* begin, Value* end);
  Chunks fixed_chunks() const;
  Value* chunk_steps();

  Value* chunk_memory_ = nullptr;  // for what chunks make
  Value* kept_ = nullptr;          // memory for values of one row
};

void emit_along(const LoopKernel& kernel, const RowPlan& plan, const std::string& name, Target target,
                llvm::Module& module);
void emit_across(const LoopKernel& kernel, const RowPlan& plan, const std::string& name, Target target,
                 llvm::Module& module);

}  // namespace firesteel::cpu
