// Rows one by one, vectors along each.
#include "codegen/cpu/row_body.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

class AlongRows final : public RowBody {
 public:
  AlongRows(const LoopKernel& kernel, const RowPlan& plan, Target target, llvm::Module& module)
      : RowBody(kernel, plan, kernel.sizes.size() - 1, target, module) {}

 private:
  // The points of the row up to the current indices of its outer loops.
  Value* position_of_outer() {
    Value* position = n(0);
    for (size_t d = kernel_.row_loops(); d + 1 < kernel_.sizes.size(); ++d) {
      position = b_.CreateAdd(b_.CreateMul(position, steps_of(d)), index_[d]);
    }
    return b_.CreateMul(position, steps_of(lane_loop_));
  }

  // Vectors along a row: [begin, end) of the innermost loop, in blocks where it is long.
  void along_lanes(int pass, const std::vector<Accumulator>& sums, int64_t unrolled, const RowValues& row, Value* begin,
                   Value* end, bool in_blocks) {
    Value* base = plan_.kept.empty() ? n(0) : position_of_outer();
    const int64_t step = l_.width * unrolled;
    auto vectors = [&](Value* from, Value* to) {
      emit_loop(l_, from, to, n(step), [&](Value* i) {
        for (int64_t u = 0; u < unrolled; ++u) {
          Value* at = b_.CreateAdd(i, n(u * l_.width));
          emit_points(pass, sums, u, row, at, b_.CreateAdd(base, at), nullptr);
        }
        return nullptr;
      });
    };
    Value* whole = whole_steps(begin, end, step);
    if (in_blocks) {
      emit_loop(l_, begin, whole, n(step * kBlock), [&](Value* i) {
        Value* stop = smaller(b_.CreateAdd(i, n(step * kBlock)), whole);
        vectors(i, stop);
        for (const Accumulator& sum : sums) sum.end_block();
        return nullptr;
      });
    } else {
      vectors(begin, whole);
    }
    Value* rest = whole_steps(begin, end, l_.width);
    emit_loop(l_, whole, rest, n(l_.width), [&](Value* i) {
      emit_points(pass, sums, 0, row, i, b_.CreateAdd(base, i), nullptr);
      return nullptr;
    });
    emit_loop(l_, rest, end, n(l_.width), [&](Value* i) {
      Value* mask = emit_lanes_below(l_, smaller(b_.CreateSub(end, i), n(l_.width)));
      emit_points(pass, sums, 0, row, i, b_.CreateAdd(base, i), mask);
      return nullptr;
    });
    if (in_blocks) {
      for (const Accumulator& sum : sums) sum.end_block();
    }
  }

  // One pass over the current row, or over the chunk [begin, end) of its first loop.
  std::vector<Accumulator> along_pass(int pass, const RowValues& row, Value* begin, Value* end) {
    const size_t first = kernel_.row_loops(), last = kernel_.sizes.size() - 1;
    const int64_t unrolled = unrolling(kernel_.sizes[last], pass);
    const bool in_blocks = needs_blocks(pass, l_.width * unrolled);
    std::vector<Accumulator> sums = accumulators(pass, unrolled, in_blocks);
    start_running(pass, 1);
    nest(first, last, begin, end,
         [&](Value* from, Value* to) { along_lanes(pass, sums, unrolled, row, from, to, in_blocks); });
    return sums;
  }

  void emit_rows(Value* begin, Value* end) override {
    each_row(begin, end, [&](Value*) {
      RowValues row(kernel_.exprs.size(), nullptr);
      find_row_values(row, 0, n(0), nullptr);
      for (int pass = 0; pass < plan_.passes; ++pass) {
        const std::vector<Accumulator> sums = along_pass(pass, row, n(0), steps_of(kernel_.row_loops()));
        for (size_t r = 0; r < sums.size(); ++r) row[plan_.reductions[pass][r]] = sums[r].total();
        find_row_values(row, pass + 1, n(0), nullptr);
      }
      store_row(row, n(0));
    });
  }

  void emit_chunk(Value* chunk, Value* from, Value* to) override {
    emit_loop(l_, n(0), rows(), n(1), [&](Value* number) {
      number_to_indices(number, 0, kernel_.row_loops());
      RowValues row(kernel_.exprs.size(), nullptr);
      find_row_values(row, 0, n(0), nullptr);
      const std::vector<Accumulator> sums = along_pass(0, row, from, to);
      for (size_t r = 0; r < sums.size(); ++r) {
        const Element type = chunk_type(plan_.reductions[0][r]);
        Value* one = b_.CreateExtractElement(narrow(l_, sums[r].total(), type), b_.getInt64(0));
        b_.CreateStore(one, chunk_place(chunk, r, type, number));
      }
      return nullptr;
    });
  }

  void finish_rows() override {
    emit_loop(l_, n(0), rows(), n(1), [&](Value* number) {
      number_to_indices(number, 0, kernel_.row_loops());
      RowValues row(kernel_.exprs.size(), nullptr);
      find_row_values(row, 0, n(0), nullptr);
      const std::vector<Accumulator> sums = accumulators(0, 1, false);
      emit_loop(l_, n(0), chunk_count(), n(1), [&](Value* chunk) {
        for (size_t r = 0; r < sums.size(); ++r) {
          const Element type = chunk_type(plan_.reductions[0][r]);
          sums[r].add(0, emit_load(l_, type, chunk_place(chunk, r, type, number), n(0), nullptr), nullptr);
        }
        return nullptr;
      });
      for (size_t r = 0; r < sums.size(); ++r) row[plan_.reductions[0][r]] = sums[r].slot_total(0);
      find_row_values(row, 1, n(0), nullptr);
      store_row(row, n(0));
      return nullptr;
    });
  }
};

}  // namespace

void emit_along(const LoopKernel& kernel, const RowPlan& plan, const std::string& name, Target target,
                llvm::Module& module) {
  AlongRows(kernel, plan, target, module).emit(name);
}

}  // namespace firesteel::cpu
