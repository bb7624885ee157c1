// The loop IR: one kernel over an index space. Free of torch, LLVM and any CPU notion.
//
// Rules:
//  - A kernel computes every point of its index space alike. Where its last loops are `reduced`, what they run over is
//  a
//    row: a reduction takes a value of every point to one value of the row, which points of that row may read again.
//    A running sum or product carries from each point of a row to the next; such a row is one loop, walked in order.
//    Nothing else carries from point to point, and nothing from row to row.
//  - Expressions are in SSA order: operands stand before their uses. Equal expressions are one (hash-consed).
//  - Memory is read and written through index maps only: element = offset + Σ stride[d] · index[d]. Broadcasting is a
//    stride of 0, a transposed view a permutation of strides; a view is never a copy. A lookup goes as many elements
//    further as an expression says; whoever runs the kernel has made sure that it stays inside the buffer.
//  - Arithmetic is on i32, i64, f32 and f64. The narrow types exist in memory and as results of casts: a bf16 or f16
//    value is an f32 that was rounded to it, an i8, i16 or u8 value an i32 that was cut to it.
//  - Sizes, strides and offsets are numbers, or expressions whose values each call gives (`given`): one kernel for many
//    sizes. Every loop has at least one step; whoever runs the kernel has made sure of it.
//  - Two kernels with the same text are the same kernel.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "firesteel/export.h"
#include "graph/dim.h"

namespace firesteel {

// One table drives the enum, the printer and the sizes: type, spelling, bytes in memory, the type it is computed in.
#define FIRESTEEL_ELEMENT_TYPES(X) \
  X(Bool, "bool", 1, Bool)         \
  X(U8, "u8", 1, I32)              \
  X(I8, "i8", 1, I32)              \
  X(I16, "i16", 2, I32)            \
  X(I32, "i32", 4, I32)            \
  X(I64, "i64", 8, I64)            \
  X(BF16, "bf16", 2, F32)          \
  X(F16, "f16", 2, F32)            \
  X(F32, "f32", 4, F32)            \
  X(F64, "f64", 8, F64)

enum class Element : uint8_t {
#define X(name, text, bytes, computed) name,
  FIRESTEEL_ELEMENT_TYPES(X)
#undef X
};

const char* element_text(Element type);
int64_t element_bytes(Element type);
Element computed_as(Element type);  // what a register of this type holds
bool is_float(Element type);        // bf16, f16, f32, f64

// One table drives the enum, the printer and the operand count: operation, spelling, operands, what it computes.
// clang-format off
#define FIRESTEEL_LOOP_OPS(X)                                                            \
  X(Load, "load", 0, "an element of a buffer")                                           \
  X(LoadAt, "load_at", 1, "an element of a buffer, a (an i64) elements further")         \
  X(LoadNear, "load_near", 2, "an element of a buffer, a (an i64) + b (an i32) further") \
  X(LoadIf, "load_if", 1, "an element of a buffer; 0, and nothing read, where a is not") \
  X(Constant, "const", 0, "a number")                                                    \
  X(Cast, "cast", 1, "to the expression's type, as C converts; to bool: not equal to 0") \
  X(Neg, "neg", 1, "-a")                                                                 \
  X(Abs, "abs", 1, "|a|")                                                                \
  X(Not, "not", 1, "of a bool")                                                          \
  X(Sqrt, "sqrt", 1, "correctly rounded")                                                \
  X(Floor, "floor", 1, "down to a whole number")                                         \
  X(Ceil, "ceil", 1, "up to a whole number")                                             \
  X(Trunc, "trunc", 1, "towards 0 to a whole number")                                    \
  X(Rint, "rint", 1, "to the nearest whole number, ties to even")                        \
  X(Exp, "exp", 1, "e^a")                                                                \
  X(Log, "log", 1, "natural logarithm")                                                  \
  X(Sin, "sin", 1, "")                                                                   \
  X(Cos, "cos", 1, "")                                                                   \
  X(Tanh, "tanh", 1, "")                                                                 \
  X(Expm1, "expm1", 1, "e^a - 1")                                                        \
  X(Log1p, "log1p", 1, "log(1 + a)")                                                     \
  X(Exp2, "exp2", 1, "2^a")                                                              \
  X(Log2, "log2", 1, "")                                                                 \
  X(Log10, "log10", 1, "")                                                               \
  X(Tan, "tan", 1, "")                                                                   \
  X(Asin, "asin", 1, "")                                                                 \
  X(Acos, "acos", 1, "")                                                                 \
  X(Atan, "atan", 1, "")                                                                 \
  X(Sinh, "sinh", 1, "")                                                                 \
  X(Cosh, "cosh", 1, "")                                                                 \
  X(Erf, "erf", 1, "")                                                                   \
  X(Add, "add", 2, "a + b, ints wrap")                                                   \
  X(Sub, "sub", 2, "a - b, ints wrap")                                                   \
  X(Mul, "mul", 2, "a * b, ints wrap")                                                   \
  X(Div, "div", 2, "a / b, floats only")                                                 \
  X(Quotient, "quotient", 2, "a / b of ints, towards 0; a where b is 0")                 \
  X(Max, "max", 2, "the larger; NaN where either is")                                    \
  X(Min, "min", 2, "the smaller; NaN where either is")                                   \
  X(And, "and", 2, "of bools, or of bits")                                               \
  X(Or, "or", 2, "of bools, or of bits")                                                 \
  X(Xor, "xor", 2, "of bools, or of bits")                                               \
  X(Eq, "eq", 2, "a bool, false for NaN")                                                \
  X(Ne, "ne", 2, "a bool, true for NaN")                                                 \
  X(Lt, "lt", 2, "a bool, false for NaN")                                                \
  X(Le, "le", 2, "a bool, false for NaN")                                                \
  X(Gt, "gt", 2, "a bool, false for NaN")                                                \
  X(Ge, "ge", 2, "a bool, false for NaN")                                                \
  X(Fma, "fma", 3, "a * b + c, rounded once where the machine can")                      \
  X(Select, "select", 3, "a ? b : c")                                                    \
  X(Index, "index", 0, "an i64: where an index map leads from 0")                        \
  X(Size, "size", 0, "an i64 that each call gives")                                      \
  X(RowSum, "row_sum", 1, "of a row: a sum, ints wrap")                                  \
  X(RowProduct, "row_product", 1, "of a row")                                            \
  X(RowMax, "row_max", 1, "of a row: the largest, NaN where there is one")               \
  X(RowMin, "row_min", 1, "of a row: the smallest, NaN where there is one")              \
  X(RowAny, "row_any", 1, "of a row of bools")                                           \
  X(RowAll, "row_all", 1, "of a row of bools")                                           \
  X(RunSum, "run_sum", 1, "of the points of a row up to this one: a sum, ints wrap")     \
  X(RunProduct, "run_product", 1, "of the points of a row up to this one")
// clang-format on

enum class LoopOp : uint8_t {
#define X(name, text, operands, meaning) name,
  FIRESTEEL_LOOP_OPS(X)
#undef X
};

const char* loop_op_text(LoopOp op);
int operand_count(LoopOp op);
bool is_transcendental(LoopOp op);  // costs as much as some ten additions
bool is_reduction(LoopOp op);
bool is_running(LoopOp op);  // carries from point to point
bool is_load(LoopOp op);     // reads a buffer
bool has_map(LoopOp op);     // is said by an index map: reads a buffer, or is an index

// Where in a buffer the point of an index lies, in elements.
struct IndexMap {
  Dim offset = 0;
  std::vector<Dim> strides;  // one a dimension of the index space
  friend bool operator==(const IndexMap&, const IndexMap&) = default;
};

using ExprId = int32_t;
inline constexpr ExprId kNoExpr = -1;

struct LoopExpr {
  LoopOp op = LoopOp::Constant;
  Element type = Element::F32;
  ExprId operands[3] = {kNoExpr, kNoExpr, kNoExpr};
  int32_t buffer = -1;  // of a load
  IndexMap map;         // of a load or an index
  double number = 0;    // Constant of a float type
  int64_t integer = 0;  // Constant of any other
  Dim size;             // Size
};

struct LoopStore {
  ExprId value = kNoExpr;
  int32_t buffer = -1;
  IndexMap map;
  bool per_row = false;  // written once a row
};

class LoopKernel {
 public:
  std::vector<Dim> sizes;        // the index space: loops over rows, then those along a row, outermost first
  size_t reduced = 0;            // how many of the last loops make a row; 0 where nothing is reduced
  std::vector<Element> buffers;  // inputs first, then outputs, in the order of the kernel's arguments
  std::vector<LoopExpr> exprs;
  std::vector<LoopStore> stores;
  std::vector<Dim> given;  // what each call gives, once the loops are settled: sizes, strides and offsets that are open

  // Each gives back an equal expression where there is one.
  ExprId load(int32_t buffer, IndexMap map);
  ExprId load_at(int32_t buffer, IndexMap map, ExprId further);
  // `near` stays inside the buffer wherever its indices lead, and rises by 0 or 1 as one of them does.
  ExprId load_near(int32_t buffer, IndexMap map, ExprId further, ExprId near);
  ExprId load_if(int32_t buffer, IndexMap map, ExprId inside);
  ExprId index(IndexMap map);
  ExprId number(Element type, double value);    // of a float type
  ExprId integer(Element type, int64_t value);  // of any other
  ExprId size(const Dim& size);                 // an i64
  ExprId cast(ExprId value, Element type);
  ExprId op(LoopOp op, ExprId a, ExprId b = kNoExpr, ExprId c = kNoExpr);  // the type follows from the operands

  Element type(ExprId id) const { return exprs[id].type; }
  bool is_open() const { return !given.empty(); }
  Dim points() const;
  Dim rows() const;        // all points, where nothing is reduced
  Dim row_length() const;  // 1 where nothing is reduced
  size_t row_loops() const { return sizes.size() - reduced; }
  int64_t transcendentals() const;
  bool has_running() const;
  std::vector<bool> varying(size_t loop) const;  // by expression: whether it changes along that loop
  // Whether every index that the expression is made of counts one by one along that loop, or does not change.
  bool counts_by_one(ExprId id, size_t loop) const;

  // The same points with the row, one loop, walked from its end.
  void walk_back();
  // Puts loops in the order of memory, those over rows and those along a row each by themselves, and joins neighbours
  // that every map walks as one.
  void settle_loops();

  FIRESTEEL_API std::string str() const;

 private:
  ExprId add(LoopExpr expr);
  ExprId add_load(LoopOp op, int32_t buffer, IndexMap map, ExprId a, ExprId b = kNoExpr);
  const IndexMap* leading_map() const;
  void reorder(const std::vector<size_t>& order);
  void find_given();
  std::unordered_map<std::string, ExprId> known_;  // by text
};

}  // namespace firesteel
