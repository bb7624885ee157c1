// Relations and Dims as flat programs: guards on sizes, and sizes computed from inputs, on every call.
//
// Rules: one instruction a step, each into a slot of its own, equal subexpressions once, no allocation while running (a
// program of more than kSlots excepted). What has no value (a division by zero, a result past 64 bits) makes the
// relation it is part of fail; INT64_MIN stands for it, so a result that really is INT64_MIN counts as none too.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "shapes/relation.h"

namespace firesteel {

// One table drives the enum and the interpreter: operation, its result from `a` and `b` (both have a value).
#define FIRESTEEL_SIZE_OPS(X) \
  X(Add, added(a, b))         \
  X(Mul, multiplied(a, b))    \
  X(FloorDiv, divided(a, b))  \
  X(Mod, remainder(a, b))     \
  X(Min, a < b ? a : b)       \
  X(Max, a < b ? b : a)       \
  X(Eq, a == b)               \
  X(Ne, a != b)               \
  X(Lt, a < b)                \
  X(Le, a <= b)               \
  X(Gt, a > b)                \
  X(Ge, a >= b)               \
  X(And, (a & b))             \
  X(Or, (a | b))              \
  X(Number, b)

enum class SizeOp : uint8_t {
#define X(name, result) name,
  FIRESTEEL_SIZE_OPS(X)
#undef X
};

struct SizeStep {
  SizeOp op;
  uint32_t a;             // a slot: symbols first, then one a step
  uint32_t b;             // a slot, or kIsNumber
  int32_t relation = -1;  // fails where the result is not 1
  int64_t number = 0;

  static constexpr uint32_t kIsNumber = UINT32_MAX;
};

// Writes steps, each distinct one once.
class FIRESTEEL_API SizeSteps {
 public:
  explicit SizeSteps(std::span<const std::string> symbols) : symbols_(symbols.begin(), symbols.end()) {}

  uint32_t slot(const Dim& dim);
  void check(const Relation& relation, int index);

  size_t slots() const { return symbols_.size() + steps_.size(); }
  size_t symbols() const { return symbols_.size(); }
  const std::vector<SizeStep>& steps() const { return steps_; }

 private:
  uint32_t slot(const Relation& relation);
  uint32_t add(SizeOp op, uint32_t a, uint32_t b, int64_t number);
  uint32_t binary(SizeOp op, const Dim& lhs, const Dim& rhs);
  uint32_t compare(const Relation& relation);

  std::vector<std::string> symbols_;
  std::vector<SizeStep> steps_;
  std::map<std::tuple<SizeOp, uint32_t, uint32_t, int64_t>, uint32_t> known_;
};

class FIRESTEEL_API RelationProgram {
 public:
  // Every symbol of the relations is among `symbols`, whose order is that of the values.
  RelationProgram(std::span<const Relation> relations, std::span<const std::string> symbols);
  // The first relation that fails, or -1.
  int run(const int64_t* values) const;
  size_t size() const { return steps_.steps().size(); }

 private:
  SizeSteps steps_;
};

class FIRESTEEL_API DimProgram {
 public:
  DimProgram(std::span<const Dim> dims, std::span<const std::string> symbols);
  // One result a Dim. False where one has no value; the results are then not to be used.
  bool run(const int64_t* values, int64_t* results) const;
  size_t size() const { return steps_.steps().size(); }

 private:
  SizeSteps steps_;
  std::vector<uint32_t> results_;
};

}  // namespace firesteel
