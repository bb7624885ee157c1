// Levels, passes and the choice of direction for kernels with reductions.
#include "fuse/row_plan.h"

#include <algorithm>

#include "fuse/size_math.h"

namespace firesteel {
namespace {

constexpr int64_t kLargestKept = 256 << 10;  // bytes on a thread's stack
constexpr int kDearToCompute = 6;            // above it a value is kept, not computed again
constexpr int64_t kSmallWork = 1 << 16;      // points that one thread may as well do alone
// Columns are many before their sums stop being worth chunks: each core then reads whole stretches of memory, those
// that it wrote itself, where halves of every row would be fetched from another core's cache.
constexpr int64_t kFewRows = 16, kFewColumns = 8192;
constexpr int64_t kChunkPoints = 1 << 15;
constexpr int64_t kChunkSums = 1 << 16, kManyChunks = 16;  // more chunks than that only while their sums are few

int cost_of(LoopOp op) {
  if (is_transcendental(op) || is_running(op)) return 10;
  if (op == LoopOp::Div || op == LoopOp::Sqrt) return 5;
  if (is_load(op)) return 2;
  return op == LoopOp::Constant || op == LoopOp::Size ? 0 : 1;
}

}  // namespace

RowPlan::RowPlan(const LoopKernel& kernel) {
  find_levels(kernel);
  find_needs(kernel);
  choose_direction(kernel);
  if (!across) choose_kept(kernel);
  choose_chunks(kernel);
}

int RowPlan::kept_from(ExprId id) const {
  return std::find(kept.begin(), kept.end(), id) == kept.end() ? -1 : first_use[id];
}

int64_t RowPlan::kept_bytes_a_point(const LoopKernel& kernel) const {
  int64_t bytes = 0;
  for (ExprId id : kept) bytes += element_bytes(computed_as(kernel.type(id)));
  return bytes;
}

void RowPlan::find_levels(const LoopKernel& kernel) {
  per_row.assign(kernel.exprs.size(), false);
  pass.assign(kernel.exprs.size(), 0);
  for (size_t i = 0; i < kernel.exprs.size(); ++i) {
    const LoopExpr& expr = kernel.exprs[i];
    bool of_row = true;
    for (int k = 0; k < operand_count(expr.op); ++k) {
      of_row = of_row && per_row[expr.operands[k]];
      pass[i] = std::max(pass[i], pass[expr.operands[k]]);
    }
    if (has_map(expr.op)) {
      of_row = of_row && std::all_of(expr.map.strides.begin() + static_cast<int64_t>(kernel.row_loops()),
                                     expr.map.strides.end(), [](const Dim& stride) { return is_number(stride, 0); });
    }
    per_row[i] = of_row && !is_running(expr.op);
    if (is_reduction(expr.op)) {
      per_row[i] = true;
      ++pass[i];
    }
  }
}

void RowPlan::find_needs(const LoopKernel& kernel) {
  passes = 0;
  reduction_count = 0;
  row_values.clear();
  std::vector<bool> read(kernel.exprs.size(), false);
  for (const LoopStore& store : kernel.stores) read[store.value] = true;
  for (size_t i = kernel.exprs.size(); i-- > 0;) {
    if (!read[i]) continue;
    const LoopExpr& expr = kernel.exprs[i];
    for (int k = 0; k < operand_count(expr.op); ++k) read[expr.operands[k]] = true;
    if (is_reduction(expr.op)) passes = std::max(passes, pass[i]);
  }
  for (const LoopStore& store : kernel.stores) {
    if (!store.per_row) passes = std::max(passes, pass[store.value] + 1);
  }
  reductions.assign(passes, {});
  stores.assign(passes, {});
  needed.assign(passes, {});
  for (size_t i = 0; i < kernel.exprs.size(); ++i) {
    if (!read[i]) continue;
    if (is_reduction(kernel.exprs[i].op)) reductions[pass[i] - 1].push_back(static_cast<ExprId>(i));
    if (is_reduction(kernel.exprs[i].op)) ++reduction_count;
    if (per_row[i]) row_values.push_back(static_cast<ExprId>(i));
  }
  for (size_t s = 0; s < kernel.stores.size(); ++s) {
    if (!kernel.stores[s].per_row) stores[pass[kernel.stores[s].value]].push_back(s);
  }
  first_use.assign(kernel.exprs.size(), -1);
  for (int p = 0; p < passes; ++p) {
    std::vector<bool> wanted(kernel.exprs.size(), false);
    for (ExprId id : reductions[p]) wanted[kernel.exprs[id].operands[0]] = true;
    for (size_t s : stores[p]) wanted[kernel.stores[s].value] = true;
    for (size_t i = kernel.exprs.size(); i-- > 0;) {
      if (!wanted[i] || per_row[i] || kept_from(static_cast<ExprId>(i)) >= 0) continue;
      const LoopExpr& expr = kernel.exprs[i];
      for (int k = 0; k < operand_count(expr.op); ++k) wanted[expr.operands[k]] = true;
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      needed[p].push_back(static_cast<ExprId>(i));
      if (first_use[i] < 0) first_use[i] = p;
    }
  }
}

// Along the row only: values that a later pass would have to compute again at some cost. Walking from what a pass needs
// towards the loads, the first such value of an earlier pass is kept.
void RowPlan::choose_kept(const LoopKernel& kernel) {
  std::vector<int> cost(kernel.exprs.size(), 0);
  for (size_t i = 0; i < cost.size(); ++i) {
    const LoopExpr& expr = kernel.exprs[i];
    if (per_row[i]) continue;
    cost[i] = cost_of(expr.op);
    for (int k = 0; k < operand_count(expr.op); ++k) cost[i] += cost[expr.operands[k]];
  }
  std::vector<bool> computed(kernel.exprs.size(), false);  // by an earlier pass
  for (int p = 0; p < passes; ++p) {
    std::vector<bool> wanted(kernel.exprs.size(), false);
    for (ExprId id : reductions[p]) wanted[kernel.exprs[id].operands[0]] = true;
    for (size_t s : stores[p]) wanted[kernel.stores[s].value] = true;
    for (size_t i = kernel.exprs.size(); i-- > 0;) {
      if (!wanted[i] || per_row[i]) continue;
      const auto id = static_cast<ExprId>(i);
      if (computed[i] && cost[i] > kDearToCompute && computed_as(kernel.type(id)) != Element::Bool) {
        if (std::find(kept.begin(), kept.end(), id) == kept.end()) kept.push_back(id);
        continue;
      }
      const LoopExpr& expr = kernel.exprs[i];
      for (int k = 0; k < operand_count(expr.op); ++k) wanted[expr.operands[k]] = true;
    }
    for (ExprId id : needed[p]) computed[id] = true;
  }
  const Dim length = kernel.row_length();  // where it is open, the caller brings the memory
  if (length.is_number() && kept_bytes_a_point(kernel) * length.number() > kLargestKept) kept.clear();
  find_needs(kernel);
}

// Vectors along the last loop of a row, or across rows along the last loop over rows: whichever makes more contiguous
// accesses. A gather costs about as much as its lanes.
void RowPlan::choose_direction(const LoopKernel& kernel) {
  if (kernel.row_loops() == 0 || kernel.reduced == 0) return;
  auto score = [&](size_t loop) {
    int total = 0;
    auto add = [&](const IndexMap& map) {
      const Dim& stride = map.strides[loop];
      total += is_number(stride, 1) || is_number(stride, -1) ? 1 : is_number(stride, 0) ? 0 : -2;
    };
    const std::vector<bool> varies = kernel.varying(loop);
    for (size_t i = 0; i < kernel.exprs.size(); ++i) {
      const LoopExpr& expr = kernel.exprs[i];
      if (!is_load(expr.op) || per_row[i]) continue;
      if (expr.op == LoopOp::LoadAt && varies[expr.operands[0]]) {
        total -= 2;
      } else if (expr.op == LoopOp::LoadNear && (varies[expr.operands[0]] || varies[expr.operands[1]])) {
        total += varies[expr.operands[0]] ? -2 : 1;
      } else {
        add(expr.map);
      }
    }
    for (const LoopStore& store : kernel.stores) {
      if (!store.per_row) add(store.map);
    }
    return total;
  };
  across = score(kernel.row_loops() - 1) > score(kernel.sizes.size() - 1);
}

// One pass only: what a second one reads is not known before all chunks are done.
void RowPlan::choose_chunks(const LoopKernel& kernel) {
  const Dim rows = kernel.rows(), length = kernel.row_length();
  const int64_t few = across ? kFewColumns : kFewRows;
  if (passes != 1 || kernel.has_running() || (rows.is_number() && rows.number() > few)) return;
  if (rows.is_number() && length.is_number()) {
    cut = Cut::Always;
    if (!chunks_of(*this, rows.number(), length.number(), kernel.sizes[kernel.row_loops()].number()).count)
      cut = Cut::Never;
    return;
  }
  // As many points as few rows can have are too few.
  if (length.is_number() && length.number() * few < kSmallWork) return;
  cut = Cut::AsCalled;
}

Chunks chunks_of(const RowPlan& plan, int64_t rows, int64_t row_length, int64_t first) {
  const int64_t points = rows * row_length;
  if (!plan.chunks() || points < kSmallWork || rows > (plan.across ? kFewColumns : kFewRows)) return {};
  const int64_t points_a_step = std::max<int64_t>(1, points / first);
  const int64_t most = std::max(kManyChunks, kChunkSums / (rows * static_cast<int64_t>(plan.reduction_count)));
  Chunks chunks{std::max({int64_t{1}, kChunkPoints / points_a_step, (first + most - 1) / most}), 0};
  chunks.count = (first + chunks.steps - 1) / chunks.steps;
  return chunks.count < 2 ? Chunks{} : chunks;
}

// Sizes that are open count as many: but a single row is as long as the whole tensor.
bool worth_many_passes(const Dim& rows, const Dim& row_length) {
  if (row_length.is_number() && row_length.number() <= (1 << 14)) return true;
  return rows.is_number() ? rows.number() >= 8 || (rows.number() > 1 && !row_length.is_number()) : true;
}

}  // namespace firesteel
