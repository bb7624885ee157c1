// The loop IR: building, loop order, text.
#include "fuse/loop_ir.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>

#include "fuse/size_math.h"

namespace firesteel {
namespace {

template <class F>
void each_map(LoopKernel& kernel, F&& visit) {
  for (LoopExpr& expr : kernel.exprs) {
    if (has_map(expr.op)) visit(expr.map);
  }
  for (LoopStore& store : kernel.stores) visit(store.map);
}

using DimText = std::function<std::string(const Dim&)>;

std::string list_text(std::span<const Dim> dims, const DimText& dim_text) {
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + dim_text(dims[i]);
  return text;
}

std::string map_text(const IndexMap& map, const DimText& dim_text) {
  std::string text = "{" + list_text(map.strides, dim_text) + "}";
  return is_number(map.offset, 0) ? text : dim_text(map.offset) + " + " + text;
}

// A float's text gives back its bits.
std::string constant_text(const LoopExpr& expr) {
  if (!is_float(expr.type)) return std::to_string(expr.integer);
  char text[48];
  std::snprintf(text, sizeof text, "%a", expr.number);
  return text;
}

std::string expr_text(const LoopExpr& expr, const DimText& dim_text) {
  std::string text = std::string(loop_op_text(expr.op)) + " " + element_text(expr.type);
  if (is_load(expr.op)) text += " #" + std::to_string(expr.buffer);
  if (has_map(expr.op)) text += " " + map_text(expr.map, dim_text);
  if (expr.op == LoopOp::Size) text += " " + dim_text(expr.size);
  if (expr.op == LoopOp::Constant) text += " " + constant_text(expr);
  for (int i = 0; i < operand_count(expr.op); ++i) text += (i ? ", %" : " %") + std::to_string(expr.operands[i]);
  return text;
}

}  // namespace

const char* element_text(Element type) {
  static constexpr const char* texts[] = {
#define X(name, text, bytes, computed) text,
      FIRESTEEL_ELEMENT_TYPES(X)
#undef X
  };
  return texts[static_cast<size_t>(type)];
}

int64_t element_bytes(Element type) {
  static constexpr int64_t sizes[] = {
#define X(name, text, bytes, computed) bytes,
      FIRESTEEL_ELEMENT_TYPES(X)
#undef X
  };
  return sizes[static_cast<size_t>(type)];
}

Element computed_as(Element type) {
  static constexpr Element types[] = {
#define X(name, text, bytes, computed) Element::computed,
      FIRESTEEL_ELEMENT_TYPES(X)
#undef X
  };
  return types[static_cast<size_t>(type)];
}

bool is_float(Element type) { return computed_as(type) == Element::F32 || type == Element::F64; }

const char* loop_op_text(LoopOp op) {
  static constexpr const char* texts[] = {
#define X(name, text, operands, meaning) text,
      FIRESTEEL_LOOP_OPS(X)
#undef X
  };
  return texts[static_cast<size_t>(op)];
}

int operand_count(LoopOp op) {
  static constexpr int counts[] = {
#define X(name, text, operands, meaning) operands,
      FIRESTEEL_LOOP_OPS(X)
#undef X
  };
  return counts[static_cast<size_t>(op)];
}

bool is_transcendental(LoopOp op) { return op >= LoopOp::Exp && op <= LoopOp::Erf; }
bool is_reduction(LoopOp op) { return op >= LoopOp::RowSum && op <= LoopOp::RowAll; }
bool is_running(LoopOp op) { return op == LoopOp::RunSum || op == LoopOp::RunProduct; }
bool is_load(LoopOp op) { return op >= LoopOp::Load && op <= LoopOp::LoadIf; }
bool has_map(LoopOp op) { return is_load(op) || op == LoopOp::Index; }

ExprId LoopKernel::add(LoopExpr expr) {
  auto [known, is_new] = known_.emplace(expr_text(expr, &Dim::str), static_cast<ExprId>(exprs.size()));
  if (is_new) exprs.push_back(std::move(expr));
  return known->second;
}

ExprId LoopKernel::add_load(LoopOp op, int32_t buffer, IndexMap map, ExprId a, ExprId b) {
  LoopExpr expr;
  expr.op = op;
  expr.type = buffers[buffer];
  expr.operands[0] = a;
  expr.operands[1] = b;
  expr.buffer = buffer;
  expr.map = std::move(map);
  return add(std::move(expr));
}

ExprId LoopKernel::load(int32_t buffer, IndexMap map) {
  return add_load(LoopOp::Load, buffer, std::move(map), kNoExpr);
}
ExprId LoopKernel::load_at(int32_t buffer, IndexMap map, ExprId further) {
  return add_load(LoopOp::LoadAt, buffer, std::move(map), further);
}
ExprId LoopKernel::load_near(int32_t buffer, IndexMap map, ExprId further, ExprId near) {
  return add_load(LoopOp::LoadNear, buffer, std::move(map), further, near);
}
ExprId LoopKernel::load_if(int32_t buffer, IndexMap map, ExprId inside) {
  return add_load(LoopOp::LoadIf, buffer, std::move(map), inside);
}

ExprId LoopKernel::index(IndexMap map) {
  LoopExpr expr;
  expr.op = LoopOp::Index;
  expr.type = Element::I64;
  expr.map = std::move(map);
  return add(std::move(expr));
}

ExprId LoopKernel::number(Element type, double value) {
  LoopExpr expr;
  expr.type = type;
  expr.number = value;
  return add(std::move(expr));
}

ExprId LoopKernel::integer(Element type, int64_t value) {
  LoopExpr expr;
  expr.type = type;
  expr.integer = value;
  return add(std::move(expr));
}

ExprId LoopKernel::size(const Dim& size) {
  if (size.is_number()) return integer(Element::I64, size.number());
  LoopExpr expr;
  expr.op = LoopOp::Size;
  expr.type = Element::I64;
  expr.size = size;
  return add(std::move(expr));
}

ExprId LoopKernel::cast(ExprId value, Element type) {
  if (exprs[value].type == type) return value;
  LoopExpr expr;
  expr.op = LoopOp::Cast;
  expr.type = type;
  expr.operands[0] = value;
  return add(std::move(expr));
}

ExprId LoopKernel::op(LoopOp op, ExprId a, ExprId b, ExprId c) {
  LoopExpr expr;
  expr.op = op;
  const bool compares = op >= LoopOp::Eq && op <= LoopOp::Ge;
  expr.type = compares ? Element::Bool : exprs[op == LoopOp::Select ? b : a].type;
  expr.operands[0] = a;
  expr.operands[1] = b;
  expr.operands[2] = c;
  return add(std::move(expr));
}

Dim LoopKernel::points() const { return product(sizes); }
Dim LoopKernel::rows() const { return product(std::span(sizes).first(row_loops())); }
Dim LoopKernel::row_length() const { return product(std::span(sizes).subspan(row_loops())); }

int64_t LoopKernel::transcendentals() const {
  return std::count_if(exprs.begin(), exprs.end(), [](const LoopExpr& expr) { return is_transcendental(expr.op); });
}

bool LoopKernel::has_running() const {
  return std::any_of(exprs.begin(), exprs.end(), [](const LoopExpr& expr) { return is_running(expr.op); });
}

std::vector<bool> LoopKernel::varying(size_t loop) const {
  std::vector<bool> varies(exprs.size(), false);
  for (size_t i = 0; i < exprs.size(); ++i) {
    const LoopExpr& expr = exprs[i];
    if (is_reduction(expr.op)) {
      varies[i] = loop < row_loops();
      continue;
    }
    varies[i] = is_running(expr.op) && loop >= row_loops();
    varies[i] =
        varies[i] || (has_map(expr.op) && (loop >= expr.map.strides.size() || !is_number(expr.map.strides[loop], 0)));
    for (int k = 0; k < operand_count(expr.op); ++k) varies[i] = varies[i] || varies[expr.operands[k]];
  }
  return varies;
}

bool LoopKernel::counts_by_one(ExprId id, size_t loop) const {
  const LoopExpr& expr = exprs[id];
  if (is_load(expr.op)) return false;
  if (expr.op == LoopOp::Index && loop < expr.map.strides.size()) {
    const Dim& stride = expr.map.strides[loop];
    return is_number(stride, 0) || is_number(stride, 1);
  }
  for (int k = 0; k < operand_count(expr.op); ++k) {
    if (!counts_by_one(expr.operands[k], loop)) return false;
  }
  return true;
}

void LoopKernel::reorder(const std::vector<size_t>& order) {
  auto permute = [&](std::vector<Dim>& dims) {
    std::vector<Dim> old = dims;
    dims.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) dims[i] = old[order[i]];
  };
  permute(sizes);
  each_map(*this, [&](IndexMap& map) { permute(map.strides); });
}

void LoopKernel::walk_back() {
  const Dim last = sizes.back() + -1;
  each_map(*this, [&](IndexMap& map) {
    map.offset = map.offset + map.strides.back() * last;
    map.strides.back() = map.strides.back() * -1;
  });
}

// The memory whose order the loops follow: the first store; where there are rows, what covers most of the loops.
const IndexMap* LoopKernel::leading_map() const {
  if (!reduced) return stores.empty() ? nullptr : &stores.front().map;
  const IndexMap* best = nullptr;
  int64_t most = 0;
  auto consider = [&](const IndexMap& map) {
    const int64_t walked =
        std::count_if(map.strides.begin(), map.strides.end(), [](const Dim& s) { return !is_number(s, 0); });
    if (walked > most) best = &map;
    most = std::max(most, walked);
  };
  for (const LoopStore& store : stores) {
    if (!store.per_row) consider(store.map);
  }
  for (const LoopExpr& expr : exprs) {
    if (is_load(expr.op)) consider(expr.map);
  }
  return best;
}

void LoopKernel::settle_loops() {
  const size_t rows = row_loops();
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!is_number(sizes[d], 1)) order.push_back(d);
  }
  const IndexMap* leading = leading_map();
  std::vector<int64_t> walked;
  for (const Dim& step : leading ? leading->strides : sizes) walked.push_back(estimate(step));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (a < rows) != (b < rows) ? a < b : walked[a] > walked[b]; });
  reduced = std::count_if(order.begin(), order.end(), [&](size_t d) { return d >= rows; });
  reorder(order);
  for (size_t d = sizes.size(); d-- > 1;) {
    bool joined = d != row_loops();
    each_map(*this,
             [&](IndexMap& map) { joined = joined && surely_equal(map.strides[d - 1], map.strides[d] * sizes[d]); });
    if (!joined) continue;
    if (d > row_loops()) --reduced;
    sizes[d - 1] = sizes[d - 1] * sizes[d];
    sizes.erase(sizes.begin() + d);
    each_map(*this, [&](IndexMap& map) { map.strides.erase(map.strides.begin() + (d - 1)); });
  }
  known_.clear();  // the texts of loads have changed
  find_given();
}

void LoopKernel::find_given() {
  given.clear();
  auto take = [&](const Dim& dim) {
    if (!dim.is_number() && std::find(given.begin(), given.end(), dim) == given.end()) given.push_back(dim);
  };
  for (const Dim& size : sizes) take(size);
  for (const LoopExpr& expr : exprs) take(expr.size);
  each_map(*this, [&](IndexMap& map) {
    take(map.offset);
    for (const Dim& stride : map.strides) take(stride);
  });
}

std::string LoopKernel::str() const {
  // By place among what is given, not by name: graphs that name their symbols otherwise share the code.
  const DimText dim_text = [&](const Dim& dim) {
    auto place = std::find(given.begin(), given.end(), dim);
    return place == given.end() ? dim.str() : "n" + std::to_string(place - given.begin());
  };
  std::string text = "loops [" + list_text(std::span(sizes).first(row_loops()), dim_text);
  if (reduced) text += " | " + list_text(std::span(sizes).subspan(row_loops()), dim_text);
  text += "] (";
  for (size_t i = 0; i < buffers.size(); ++i) {
    text += (i ? ", #" : "#") + std::to_string(i) + " " + element_text(buffers[i]);
  }
  text += ") {\n";
  for (size_t i = 0; i < exprs.size(); ++i)
    text += "  %" + std::to_string(i) + " = " + expr_text(exprs[i], dim_text) + "\n";
  for (const LoopStore& store : stores) {
    text += std::string("  store ") + (store.per_row ? "row #" : "#") + std::to_string(store.buffer) + " " +
            map_text(store.map, dim_text) + " = %" + std::to_string(store.value) + "\n";
  }
  return text + "}\n";
}

}  // namespace firesteel
