// Rows side by side in vectors, which walk down the steps of the reduced loops together.
//
// One pass over long columns goes by panels: a few steps of many columns at a time, what they make added to memory that
// stays in cache. Memory is then read nearly in order, where one column after the other would touch a page a step.
#include "codegen/cpu/row_body.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

constexpr int64_t kPanelSteps = 4;
constexpr int64_t kPanelBytes = 16 << 10;  // of sums

class AcrossRows final : public RowBody {
 public:
  AcrossRows(const LoopKernel& kernel, const RowPlan& plan, Target target, llvm::Module& module)
      : RowBody(kernel, plan, kernel.row_loops() - 1, target, module) {
    const Dim& inner = kernel.sizes[lane_loop_];
    unrolled_ = unrolling(inner, 0);
    const int64_t tile = l_.width * unrolled_;
    in_panels_ = plan.passes == 1 && !kernel.has_running() && at_least(inner, tile + 1) &&
                 at_least(kernel.row_length(), 4 * kPanelSteps) && at_least(kernel.sizes.back(), kPanelSteps);
    int64_t bytes = 0;
    for (ExprId id : plan.reductions[0]) bytes += element_bytes(chunk_type(id));
    int64_t columns = kPanelBytes / std::max<int64_t>(bytes, 1);
    if (inner.is_number()) columns = std::min(inner.number(), columns);
    panel_ = std::max<int64_t>((columns + tile - 1) / tile, 1) * tile;
  }

 private:
  using Columns = std::vector<RowValues>;  // values of rows, by vector
  using Tile = std::function<void(Value* column, int64_t unrolled, Value* mask)>;
  // Takes the sums of a tile: `sums(reduction, vector)`.
  using Finish = std::function<void(Value* column, int64_t unrolled, Value* mask,
                                    const std::function<Value*(size_t, int64_t)>& sums)>;

  static bool at_least(const Dim& size, int64_t number) { return !size.is_number() || size.number() >= number; }
  Value* inner() { return steps_of(lane_loop_); }  // columns
  Value* lane(Value* column, int64_t u) { return b_.CreateAdd(column, n(u * l_.width)); }

  // The columns [begin, end) of the innermost loop over rows.
  void tiles(Value* begin, Value* end, const Tile& tile) {
    Value* whole = whole_steps(begin, end, l_.width * unrolled_);
    emit_loop(l_, begin, whole, n(l_.width * unrolled_), [&](Value* i) {
      tile(i, unrolled_, nullptr);
      return nullptr;
    });
    emit_loop(l_, whole, end, n(l_.width), [&](Value* i) {
      tile(i, 1, emit_lanes_below(l_, smaller(b_.CreateSub(end, i), n(l_.width))));
      return nullptr;
    });
  }

  // A range may begin and end in the middle of the innermost loop over rows.
  void emit_rows(Value* begin, Value* end) override {
    emit_loop(l_, begin, end, nullptr, [&](Value* number) {
      Value* outer = b_.CreateUDiv(number, inner());
      Value* column = b_.CreateSub(number, b_.CreateMul(outer, inner()));
      Value* count = smaller(b_.CreateSub(inner(), column), b_.CreateSub(end, number));
      number_to_indices(outer, 0, lane_loop_);
      Value* stop = b_.CreateAdd(column, count);
      if (in_panels_) {
        panels(column, stop, n(0), steps_of(kernel_.row_loops()),
               [&](Value* at, int64_t unrolled, Value* mask, const auto& sums) { finish(at, unrolled, mask, sums); });
      } else {
        tiles(column, stop, [&](Value* at, int64_t unrolled, Value* mask) { all_passes(at, unrolled, mask); });
      }
      return count;
    });
  }

  Columns columns(Value* column, int64_t unrolled, Value* mask) {
    Columns rows(unrolled, RowValues(kernel_.exprs.size(), nullptr));
    for (int64_t u = 0; u < unrolled; ++u) find_row_values(rows[u], 0, lane(column, u), mask);
    return rows;
  }

  void store_rows(const RowValues& row, Value* at, Value* mask) {
    for (const LoopStore& store : kernel_.stores) {
      if (!store.per_row) continue;
      emit_store(l_, kernel_.buffers[store.buffer], row[store.value], place(store.map, store.buffer, at),
                 n(store.map.strides[lane_loop_]), mask);
    }
  }

  void all_passes(Value* column, int64_t unrolled, Value* mask) {
    Columns rows = columns(column, unrolled, mask);
    for (int pass = 0; pass < plan_.passes; ++pass) {
      const auto sums = one_pass(pass, rows, column, unrolled, mask, n(0), steps_of(kernel_.row_loops()));
      for (int64_t u = 0; u < unrolled; ++u) {
        for (size_t r = 0; r < sums.size(); ++r) rows[u][plan_.reductions[pass][r]] = sums[r].slot_total(u);
        find_row_values(rows[u], pass + 1, lane(column, u), mask);
      }
    }
    for (int64_t u = 0; u < unrolled; ++u) store_rows(rows[u], lane(column, u), mask);
  }

  // What is computed of a tile's sums, where there is one pass.
  void finish(Value* column, int64_t unrolled, Value* mask, const std::function<Value*(size_t, int64_t)>& sums) {
    Columns rows = columns(column, unrolled, mask);
    for (int64_t u = 0; u < unrolled; ++u) {
      for (size_t r = 0; r < plan_.reductions[0].size(); ++r) rows[u][plan_.reductions[0][r]] = sums(r, u);
      find_row_values(rows[u], 1, lane(column, u), mask);
      store_rows(rows[u], lane(column, u), mask);
    }
  }

  void steps(int pass, const std::vector<Accumulator>& sums, const Columns& rows, Value* column, Value* mask,
             Value* from, Value* to) {
    emit_loop(l_, from, to, n(1), [&](Value* i) {
      index_.back() = i;
      for (size_t u = 0; u < rows.size(); ++u) {
        const auto slot = static_cast<int64_t>(u);
        emit_points(pass, sums, slot, rows[u], lane(column, slot), n(0), mask);
      }
      return nullptr;
    });
  }

  std::vector<Accumulator> one_pass(int pass, const Columns& rows, Value* column, int64_t unrolled, Value* mask,
                                    Value* begin, Value* end) {
    const bool in_blocks = needs_blocks(pass, 1);
    std::vector<Accumulator> sums = accumulators(pass, unrolled, in_blocks);
    start_running(pass, unrolled);
    nest(kernel_.row_loops(), kernel_.sizes.size() - 1, begin, end, [&](Value* from, Value* to) {
      if (!in_blocks) return steps(pass, sums, rows, column, mask, from, to);
      emit_loop(l_, from, to, n(kBlock), [&](Value* i) {
        steps(pass, sums, rows, column, mask, i, smaller(b_.CreateAdd(i, n(kBlock)), to));
        for (const Accumulator& sum : sums) sum.end_block();
        return nullptr;
      });
    });
    return sums;
  }

  // Where the sums of a panel lie: as many as it has columns, reduction by reduction; then, where there are many, their
  // totals.
  Value* sum_place(size_t reduction, Value* column, bool total) {
    int64_t bytes = total ? panel_bytes() : 0;
    for (size_t r = 0; r < reduction; ++r) bytes += element_bytes(chunk_type(plan_.reductions[0][r])) * panel_;
    Value* start = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), memory_, static_cast<uint64_t>(bytes));
    return b_.CreateInBoundsGEP(l_.memory_element(chunk_type(plan_.reductions[0][reduction])), start, column);
  }
  int64_t panel_bytes() const {
    int64_t bytes = 0;
    for (ExprId id : plan_.reductions[0]) bytes += element_bytes(chunk_type(id)) * panel_;
    return bytes;
  }
  Value* load_sum(size_t r, Value* column, bool total) {
    return emit_load(l_, chunk_type(plan_.reductions[0][r]), sum_place(r, column, total), n(1), nullptr);
  }
  void store_sum(size_t r, Value* column, bool total, Value* value) {
    emit_store(l_, chunk_type(plan_.reductions[0][r]), value, sum_place(r, column, total), n(1), nullptr);
  }

  void panels(Value* begin, Value* end, Value* from, Value* to, const Finish& finish) {
    const bool has_totals = needs_blocks(0, kPanelSteps);
    memory_ = stack_bytes(panel_bytes() * (has_totals ? 2 : 1));
    emit_loop(l_, begin, end, n(panel_), [&](Value* first) {
      panel(first, smaller(b_.CreateAdd(first, n(panel_)), end), from, to, has_totals, finish);
      return nullptr;
    });
  }

  void panel(Value* begin, Value* end, Value* from, Value* to, bool has_totals, const Finish& finish) {
    const std::vector<Accumulator> kinds = accumulators(0, 1, false);
    auto each_vector = [&](const std::function<void(Value*, size_t)>& visit) {
      emit_loop(l_, n(0), b_.CreateSub(end, begin), n(l_.width), [&](Value* column) {
        for (size_t r = 0; r < kinds.size(); ++r) visit(column, r);
        return nullptr;
      });
    };
    each_vector([&](Value* column, size_t r) {
      store_sum(r, column, false, kinds[r].identity());
      if (has_totals) store_sum(r, column, true, kinds[r].identity());
    });
    auto few_steps = [&](Value* start, Value* stop) {
      tiles(begin, end, [&](Value* column, int64_t unrolled, Value* mask) {
        const Columns rows = columns(column, unrolled, mask);
        const std::vector<Accumulator> sums = accumulators(0, unrolled, false);
        steps(0, sums, rows, column, mask, start, stop);
        for (int64_t u = 0; u < unrolled; ++u) {
          Value* at = b_.CreateSub(lane(column, u), begin);
          for (size_t r = 0; r < sums.size(); ++r)
            store_sum(r, at, false, sums[r].combine(load_sum(r, at, false), sums[r].slot_total(u)));
        }
      });
    };
    auto add_totals = [&] {
      each_vector([&](Value* column, size_t r) {
        store_sum(r, column, true, kinds[r].combine(load_sum(r, column, true), load_sum(r, column, false)));
        store_sum(r, column, false, kinds[r].identity());
      });
    };
    nest(kernel_.row_loops(), kernel_.sizes.size() - 1, from, to, [&](Value* low, Value* high) {
      auto by_panels = [&](Value* start, Value* stop) {
        emit_loop(l_, start, stop, n(kPanelSteps), [&](Value* i) {
          few_steps(i, smaller(b_.CreateAdd(i, n(kPanelSteps)), stop));
          return nullptr;
        });
      };
      if (!has_totals) return by_panels(low, high);
      emit_loop(l_, low, high, n(kPanelSteps * kBlock), [&](Value* i) {
        by_panels(i, smaller(b_.CreateAdd(i, n(kPanelSteps * kBlock)), high));
        add_totals();
        return nullptr;
      });
    });
    tiles(begin, end, [&](Value* column, int64_t unrolled, Value* mask) {
      finish(column, unrolled, mask,
             [&](size_t r, int64_t u) { return load_sum(r, b_.CreateSub(lane(column, u), begin), has_totals); });
    });
  }

  void emit_chunk(Value* chunk, Value* from, Value* to) override {
    emit_loop(l_, n(0), sizes_->product(0, lane_loop_), n(1), [&](Value* outer) {
      number_to_indices(outer, 0, lane_loop_);
      auto keep = [&](Value* column, int64_t unrolled, Value* mask, const auto& sums) {
        for (size_t r = 0; r < plan_.reductions[0].size(); ++r) {
          const Element type = chunk_type(plan_.reductions[0][r]);
          for (int64_t u = 0; u < unrolled; ++u) {
            Value* row = b_.CreateAdd(b_.CreateMul(outer, inner()), lane(column, u));
            emit_store(l_, type, sums(r, u), chunk_place(chunk, r, type, row), n(1), mask);
          }
        }
      };
      if (in_panels_) {
        panels(n(0), inner(), from, to, keep);
      } else {
        tiles(n(0), inner(), [&](Value* column, int64_t unrolled, Value* mask) {
          const auto sums = one_pass(0, columns(column, unrolled, mask), column, unrolled, mask, from, to);
          keep(column, unrolled, mask, [&](size_t r, int64_t u) { return sums[r].slot_total(u); });
        });
      }
      return nullptr;
    });
  }

  void finish_rows() override {
    emit_loop(l_, n(0), sizes_->product(0, lane_loop_), n(1), [&](Value* outer) {
      number_to_indices(outer, 0, lane_loop_);
      tiles(n(0), inner(), [&](Value* column, int64_t unrolled, Value* mask) {
        const std::vector<Accumulator> sums = accumulators(0, unrolled, false);
        emit_loop(l_, n(0), chunk_count(), n(1), [&](Value* chunk) {
          for (size_t r = 0; r < sums.size(); ++r) {
            const Element type = chunk_type(plan_.reductions[0][r]);
            for (int64_t u = 0; u < unrolled; ++u) {
              Value* row = b_.CreateAdd(b_.CreateMul(outer, inner()), lane(column, u));
              sums[r].add(u, emit_load(l_, type, chunk_place(chunk, r, type, row), n(1), mask), mask);
            }
          }
          return nullptr;
        });
        finish(column, unrolled, mask, [&](size_t r, int64_t u) { return sums[r].slot_total(u); });
      });
      return nullptr;
    });
  }

  int64_t unrolled_ = 1;  // vectors of them in a tile
  bool in_panels_ = false;
  int64_t panel_ = 0;  // columns of a panel, whole tiles
  Value* memory_ = nullptr;
};

}  // namespace

void emit_across(const LoopKernel& kernel, const RowPlan& plan, const std::string& name, Target target,
                 llvm::Module& module) {
  AcrossRows(kernel, plan, target, module).emit(name);
}

}  // namespace firesteel::cpu
