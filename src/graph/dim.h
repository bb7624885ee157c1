// Sizes and strides: a number, or an expression over symbols (`s0`, `2*s0 + 1`).
//
// Rules: a Dim is immutable and small (a number costs no allocation); building folds numbers and keeps sums and
// products in one order, so equal expressions written alike compare equal; `==` is structural, never a proof.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/export.h"

namespace firesteel {

// One table drives the enum, the printer and the parser: kind, spelling.
#define FIRESTEEL_DIM_OPS(X) \
  X(Add, "+")                \
  X(Mul, "*")                \
  X(FloorDiv, "//")          \
  X(Mod, "%")                \
  X(Min, "min")              \
  X(Max, "max")

enum class DimOp : uint8_t {
  Symbol,
#define X(name, text) name,
  FIRESTEEL_DIM_OPS(X)
#undef X
};

struct DimExpr;

// Python's arithmetic; nothing where there is no result (a division by zero, a number past 64 bits).
FIRESTEEL_API std::optional<int64_t> compute(DimOp op, int64_t a, int64_t b);

class FIRESTEEL_API Dim {
 public:
  Dim() = default;
  Dim(int64_t number) : number_(number) {}  // NOLINT: a number is a size
  static Dim symbol(std::string name);
  static Dim make(DimOp op, Dim lhs, Dim rhs);

  bool is_number() const { return expr_ == nullptr; }
  int64_t number() const { return number_; }  // only where is_number()
  const DimExpr* expr() const { return expr_.get(); }

  using Lookup = std::function<std::optional<int64_t>(std::string_view symbol)>;
  std::optional<int64_t> evaluate(const Lookup& lookup) const;
  std::string str() const;

  FIRESTEEL_API friend bool operator==(const Dim& a, const Dim& b);
  friend bool operator!=(const Dim& a, const Dim& b) { return !(a == b); }
  friend Dim operator+(const Dim& a, const Dim& b) { return make(DimOp::Add, a, b); }
  friend Dim operator*(const Dim& a, const Dim& b) { return make(DimOp::Mul, a, b); }

 private:
  explicit Dim(std::shared_ptr<const DimExpr> expr) : expr_(std::move(expr)) {}
  int64_t number_ = 0;
  std::shared_ptr<const DimExpr> expr_;
};

struct DimExpr {
  DimOp op;
  std::string name;  // Symbol
  Dim lhs, rhs;      // all others
};

// Row-major strides for these sizes.
FIRESTEEL_API std::vector<Dim> contiguous_strides(const std::vector<Dim>& sizes);

}  // namespace firesteel
