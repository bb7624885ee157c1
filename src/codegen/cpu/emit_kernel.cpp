// Pointwise kernels: rows of the innermost loop, each as full vectors and a masked rest, or many at a time by tiles;
// all other loops are counted per row.
#include "codegen/cpu/emit_kernel.h"

#include <algorithm>
#include <optional>

#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_rows.h"
#include "codegen/cpu/near_load.h"
#include "codegen/cpu/tiles.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

// Short bodies are unrolled, to have more than one chain of operations in flight.
unsigned unrolling(const LoopKernel& kernel) {
  return kernel.exprs.size() <= 24 && kernel.transcendentals() <= 1 ? 2 : 1;
}

class Emitter {
 public:
  Emitter(const LoopKernel& kernel, Target target, llvm::Module& module)
      : kernel_(kernel), b_(module.getContext()), l_{module, b_, target, lanes_of(kernel, target)} {
    varies_ = kernel.varying(std::max<size_t>(kernel.sizes.size(), 1) - 1);
    tiled_ = tiled_loads(l_, kernel);
    has_tiles_ = std::find(tiled_.begin(), tiled_.end(), true) != tiled_.end();
  }

  void emit(const std::string& name) {
    llvm::Function* function = begin_kernel(l_, name);
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      Value* place = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function->getArg(0), i);
      buffers_.push_back(b_.CreateLoad(b_.getPtrTy(), place));
    }
    sizes_.emplace(l_, kernel_, function->getArg(0), kernel_.buffers.size());
    Value *begin = function->getArg(1), *end = function->getArg(2);
    if (kernel_.sizes.size() <= 1) {
      emit_row({}, begin, b_.CreateSub(end, begin));
    } else if (kernel_.is_open()) {
      emit_counted_rows(begin, end);
    } else {
      emit_rows(begin, end);
    }
    b_.CreateRetVoid();
  }

 private:
  Value* n(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* n(const Dim& dim) { return (*sizes_)(dim); }

  // A range may begin and end in the middle of a row.
  void emit_rows(Value* begin, Value* end) {
    Value* inner = n(kernel_.sizes.back());
    emit_loop(l_, begin, end, nullptr, [&](Value* point) {
      Value* row = b_.CreateUDiv(point, inner);
      Value* column = b_.CreateSub(point, b_.CreateMul(row, inner));
      std::vector<Value*> outer(kernel_.sizes.size() - 1);
      for (size_t d = outer.size(); d-- > 0;) {
        outer[d] = d ? b_.CreateURem(row, n(kernel_.sizes[d])) : row;
        row = b_.CreateUDiv(row, n(kernel_.sizes[d]));
      }
      return emit_rows_at(outer, column, b_.CreateSub(end, point)).points;
    });
  }

  Value* smaller(Value* a, Value* c) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, c); }

  struct Taken {
    Value *points, *rows;
  };
  // The rest of a row, or as many whole rows as a tile has, and `left` points at most.
  Taken emit_rows_at(const std::vector<Value*>& outer, Value* column, Value* left) {
    Value* inner = n(kernel_.sizes.back());
    auto one_row = [&] {
      Value* count = smaller(b_.CreateSub(inner, column), left);
      emit_row(outer, column, count);
      return count;
    };
    if (!has_tiles_) return {one_row(), n(1)};
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    auto block = [&](const char* name) { return llvm::BasicBlock::Create(l_.module.getContext(), name, function); };
    llvm::BasicBlock *by_tiles = block("by_tiles"), *by_row = block("by_row"), *after = block("after");
    Value* fit = b_.CreateICmpSGE(left, inner);
    b_.CreateCondBr(b_.CreateAnd(b_.CreateICmpEQ(column, n(0)), fit), by_tiles, by_row);
    b_.SetInsertPoint(by_tiles);
    Value* rows = smaller(b_.CreateUDiv(left, inner), n(l_.width));
    rows = smaller(rows, b_.CreateSub(n(kernel_.sizes[outer.size() - 1]), outer.back()));
    emit_tiles(outer, rows);
    Value* points = b_.CreateMul(rows, inner);
    llvm::BasicBlock* tiles_end = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(by_row);
    Value* count = one_row();
    llvm::BasicBlock* row_end = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    auto either = [&](Value* of_tiles, Value* of_row) {
      llvm::PHINode* made = b_.CreatePHI(b_.getInt64Ty(), 2);
      made->addIncoming(of_tiles, tiles_end);
      made->addIncoming(of_row, row_end);
      return made;
    };
    return {either(points, count), either(rows, n(1))};
  }

  struct Tile {
    std::vector<Value*> memory;  // by expression, of tiled loads: for their tile
    Value* rows;                 // null: as many as lanes
    Value* columns;              // likewise
  };

  // `rows` rows from `outer` on, a tile of columns after the other.
  void emit_tiles(const std::vector<Value*>& outer, Value* rows) {
    find_rows(outer, n(0));
    Tile part{std::vector<Value*>(kernel_.exprs.size(), nullptr), rows, nullptr};
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    for (size_t e = 0; e < part.memory.size(); ++e) {
      if (!tiled_[e]) continue;
      llvm::Type* vector = l_.vector(l_.element(kernel_.exprs[e].type));
      part.memory[e] = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(llvm::ArrayType::get(vector, l_.width));
    }
    Value* inner = n(kernel_.sizes.back());
    Value* whole = b_.CreateSub(inner, b_.CreateURem(inner, n(l_.width)));
    Value* of_full = b_.CreateSelect(b_.CreateICmpEQ(rows, n(l_.width)), whole, n(0));
    emit_loop(l_, n(0), of_full, n(l_.width), [&](Value* i) {
      emit_tile({part.memory, nullptr, nullptr}, i);
      return nullptr;
    });
    emit_loop(l_, of_full, inner, n(l_.width), [&](Value* i) {
      part.columns = smaller(b_.CreateSub(inner, i), n(l_.width));
      emit_tile(part, i);
      return nullptr;
    });
  }

  void emit_tile(const Tile& tile, Value* i) {
    std::vector<std::vector<Value*>> loaded(kernel_.exprs.size());
    Value* lanes = tile.rows ? emit_lanes_below(l_, tile.rows) : nullptr;
    for (size_t e = 0; e < tiled_.size(); ++e) {
      if (!tiled_[e]) continue;
      const LoopExpr& expr = kernel_.exprs[e];
      for (unsigned c = 0; c < l_.width; ++c) {
        Value* start = start_of(expr, load_rows_[e], nullptr, b_.CreateAdd(i, n(c)));
        Value* mask = lanes ? b_.CreateAnd(lanes, l_.splat(b_.CreateICmpSLT(n(c), tile.columns))) : nullptr;
        loaded[e].push_back(emit_load(l_, expr.type, start, n(1), mask));
      }
      transpose_tile(l_, loaded[e]);
    }
    // Row by row, each with instructions of its own where that is little code: the machine then sees by each of them
    // where its row goes on, and fetches ahead. All are read before one is written: rows may lie 4 KiB apart, where a
    // load waits for a store before it to the same place of another page.
    constexpr size_t kFewExprs = 24;
    if (!tile.rows && kernel_.exprs.size() <= kFewExprs && !kernel_.transcendentals()) {
      std::vector<std::vector<Value*>> values;
      for (unsigned row = 0; row < l_.width; ++row)
        values.push_back(tile_row(n(row), i, nullptr, [&](size_t e) { return loaded[e][row]; }));
      for (unsigned row = 0; row < l_.width; ++row) store_values(values[row], n(row), i, nullptr);
      return;
    }
    for (size_t e = 0; e < tiled_.size(); ++e) {
      for (size_t row = 0; row < loaded[e].size(); ++row) {
        Value* vector = loaded[e][row];
        b_.CreateStore(vector, b_.CreateConstGEP1_64(vector->getType(), tile.memory[e], row));
      }
    }
    Value* mask = tile.columns ? emit_lanes_below(l_, tile.columns) : nullptr;
    emit_loop(l_, n(0), tile.rows ? tile.rows : n(l_.width), n(1), [&](Value* row) {
      const std::vector<Value*> values = tile_row(row, i, mask, [&](size_t e) {
        llvm::Type* vector = loaded[e].front()->getType();
        return b_.CreateLoad(vector, b_.CreateGEP(vector, tile.memory[e], row));
      });
      store_values(values, row, i, mask);
      return nullptr;
    });
  }

  std::vector<Value*> tile_row(Value* row, Value* i, Value* mask, const std::function<Value*(size_t)>& tiled) {
    std::vector<Value*> values(kernel_.exprs.size());
    for (size_t e = 0; e < values.size(); ++e) {
      const LoopExpr& expr = kernel_.exprs[e];
      values[e] = tiled_[e] ? tiled(e) : evaluate(expr, start_of(expr, load_rows_[e], row, i), values, mask);
    }
    return values;
  }

  Value* stack_number(Value* first) {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    Value* slot = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(b_.getInt64Ty());
    b_.CreateStore(first, slot);
    return slot;
  }

  // The same with indices that count up from row to row: dividing by what is no constant takes longer than a short row.
  void emit_counted_rows(Value* begin, Value* end) {
    Value* inner = n(kernel_.sizes.back());
    Value* row = b_.CreateUDiv(begin, inner);
    Value* column_slot = stack_number(b_.CreateSub(begin, b_.CreateMul(row, inner)));
    std::vector<Value*> slots(kernel_.sizes.size() - 1);
    for (size_t d = slots.size(); d-- > 0;) {
      slots[d] = stack_number(d ? b_.CreateURem(row, n(kernel_.sizes[d])) : row);
      if (d) row = b_.CreateUDiv(row, n(kernel_.sizes[d]));
    }
    emit_loop(l_, begin, end, nullptr, [&](Value* point) {
      auto load = [&](Value* slot) { return b_.CreateLoad(b_.getInt64Ty(), slot); };
      std::vector<Value*> outer;
      for (Value* slot : slots) outer.push_back(load(slot));
      const Taken taken = emit_rows_at(outer, load(column_slot), b_.CreateSub(end, point));
      b_.CreateStore(n(0), column_slot);
      Value* carry = b_.getTrue();
      for (size_t d = slots.size(); d-- > 0;) {
        Value* next = b_.CreateAdd(outer[d], d + 1 == slots.size() ? taken.rows : n(1));
        Value* full = d ? b_.CreateICmpEQ(next, n(kernel_.sizes[d])) : b_.getFalse();
        b_.CreateStore(b_.CreateSelect(carry, b_.CreateSelect(full, n(0), next), outer[d]), slots[d]);
        carry = b_.CreateAnd(carry, full);
      }
      return taken.points;
    });
  }

  Value* inner_stride(const IndexMap& map) { return map.strides.empty() ? n(1) : n(map.strides.back()); }

  Value* row_offset(const IndexMap& map, const std::vector<Value*>& outer, Value* column) {
    Value* at = n(map.offset);
    for (size_t d = 0; d < outer.size(); ++d) at = b_.CreateAdd(at, b_.CreateMul(outer[d], n(map.strides[d])));
    return b_.CreateAdd(at, b_.CreateMul(column, inner_stride(map)));
  }

  // May lie outside of the buffer where a load is not for all points.
  Value* row_start(const IndexMap& map, int32_t buffer, const std::vector<Value*>& outer, Value* column) {
    Value* at = row_offset(map, outer, column);
    return b_.CreateGEP(l_.memory_element(kernel_.buffers[buffer]), buffers_[buffer], at);
  }

  void find_rows(const std::vector<Value*>& outer, Value* column) {
    load_rows_.assign(kernel_.exprs.size(), nullptr);
    for (size_t i = 0; i < kernel_.exprs.size(); ++i) {
      const LoopExpr& expr = kernel_.exprs[i];
      if (expr.op == LoopOp::Index) load_rows_[i] = row_offset(expr.map, outer, column);
      if (is_load(expr.op)) load_rows_[i] = row_start(expr.map, expr.buffer, outer, column);
    }
    store_rows_.clear();
    for (const LoopStore& store : kernel_.stores)
      store_rows_.push_back(row_start(store.map, store.buffer, outer, column));
  }

  void emit_row(const std::vector<Value*>& outer, Value* column, Value* count) {
    find_rows(outer, column);
    fixed_.assign(kernel_.exprs.size(), nullptr);
    for (size_t i = 0; i < kernel_.exprs.size(); ++i) {
      if (!varies_[i]) fixed_[i] = evaluate(kernel_.exprs[i], load_rows_[i], fixed_, nullptr);
    }

    const int64_t unrolled = unrolling(kernel_);
    Value* step = n(l_.width * unrolled);
    Value* whole = b_.CreateSub(count, b_.CreateURem(count, step));
    emit_loop(l_, n(0), whole, step, [&](Value* i) {
      for (int64_t u = 0; u < unrolled; ++u) emit_vector(b_.CreateAdd(i, n(u * l_.width)), nullptr);
      return nullptr;
    });
    emit_loop(l_, whole, count, n(l_.width), [&](Value* i) {
      Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(count, i), n(l_.width));
      emit_vector(i, emit_lanes_below(l_, left));
      return nullptr;
    });
  }

  // Steps of a map to the point i of a row that is `row` rows further; null: of the same row.
  Value* steps_to(const IndexMap& map, Value* row, Value* i) {
    Value* steps = b_.CreateMul(i, inner_stride(map));
    return row ? b_.CreateAdd(steps, b_.CreateMul(row, n(map.strides[map.strides.size() - 2]))) : steps;
  }
  Value* start_of(const LoopExpr& expr, Value* start, Value* row, Value* i) {
    if (is_load(expr.op)) return b_.CreateGEP(l_.memory_element(expr.type), start, steps_to(expr.map, row, i));
    return expr.op == LoopOp::Index ? b_.CreateAdd(start, steps_to(expr.map, row, i)) : start;
  }

  // An expression at a vector of points, its operands in `values`; `start`: where memory or counting begins.
  Value* evaluate(const LoopExpr& expr, Value* start, const std::vector<Value*>& values, Value* mask) {
    if (expr.op == LoopOp::Size) return l_.splat(n(expr.size));
    Value* stride = inner_stride(expr.map);
    Value* operands[3] = {};
    for (int k = 0; k < operand_count(expr.op); ++k) operands[k] = values[expr.operands[k]];
    if (expr.op == LoopOp::Load) return emit_load(l_, expr.type, start, stride, mask);
    if (expr.op == LoopOp::LoadAt)
      return emit_load_at(l_, expr.type, start, stride, operands[0], !varies_[expr.operands[0]], mask);
    if (expr.op == LoopOp::LoadNear) {
      const NearLoad load{expr.type, start, stride, operands[0], operands[1], mask};
      return emit_load_near(l_, load, !varies_[expr.operands[0]], counts_by_one(expr.operands[1]));
    }
    if (expr.op == LoopOp::LoadIf)
      return emit_load_if(l_, expr.type, start, stride, operands[0], !varies_[expr.operands[0]], mask);
    if (expr.op == LoopOp::Index) return l_.counting(start, stride);
    return emit_expr(l_, kernel_, expr, operands);
  }

  bool counts_by_one(ExprId id) const {
    return kernel_.counts_by_one(id, std::max<size_t>(kernel_.sizes.size(), 1) - 1);
  }

  void emit_vector(Value* i, Value* mask) {
    std::vector<Value*> values = fixed_;
    for (size_t e = 0; e < values.size(); ++e) {
      const LoopExpr& expr = kernel_.exprs[e];
      if (values[e]) continue;
      values[e] = evaluate(expr, start_of(expr, load_rows_[e], nullptr, i), values, mask);
    }
    store_values(values, nullptr, i, mask);
  }

  void store_values(const std::vector<Value*>& values, Value* row, Value* i, Value* mask) {
    for (size_t s = 0; s < kernel_.stores.size(); ++s) {
      const LoopStore& store = kernel_.stores[s];
      const Element type = kernel_.buffers[store.buffer];
      Value* stride = inner_stride(store.map);
      Value* to = b_.CreateGEP(l_.memory_element(type), store_rows_[s], steps_to(store.map, row, i));
      emit_store(l_, type, values[store.value], to, stride, mask);
    }
  }

  const LoopKernel& kernel_;
  llvm::IRBuilder<> b_;
  Lanes l_;
  std::optional<SizeValues> sizes_;
  std::vector<Value*> buffers_;
  std::vector<Value*> load_rows_, store_rows_;  // where the current row starts
  std::vector<Value*> fixed_;                   // expressions that are the same along a row
  std::vector<bool> varies_;                    // by expression: along a row
  std::vector<bool> tiled_;                     // by expression: loads that go by tiles
  bool has_tiles_ = false;
};

}  // namespace

void emit_kernel(const LoopKernel& kernel, const std::string& name, Target target, llvm::Module& module) {
  if (kernel.reduced) {
    emit_row_kernel(kernel, name, target, module);
  } else {
    Emitter(kernel, target, module).emit(name);
  }
}

}  // namespace firesteel::cpu
