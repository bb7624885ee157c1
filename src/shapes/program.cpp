// Programs over sizes: written once, run on every call.
#include "shapes/program.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace firesteel {
namespace {

constexpr int64_t kNone = INT64_MIN;
constexpr size_t kSlots = 256;

int64_t added(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kNone : sum;
}

int64_t multiplied(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kNone : product;
}

// Python's rules, as in graph/dim.cpp. The dividend is not INT64_MIN: that is no value here.
int64_t divided(int64_t a, int64_t b) {
  if (b == 0) return kNone;
  int64_t rest = a % b;
  return a / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
}

int64_t remainder(int64_t a, int64_t b) {
  if (b == 0) return kNone;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Runs all steps, or up to a relation that fails.
int run_steps(const SizeSteps& program, const int64_t* values, int64_t* slots) {
  if (program.symbols() > 0) std::memcpy(slots, values, program.symbols() * sizeof(int64_t));
  int64_t* next = slots + program.symbols();
  for (const SizeStep& step : program.steps()) {
    bool is_number = step.b == SizeStep::kIsNumber;
    int64_t b = is_number ? step.number : slots[step.b];
    int64_t a = step.op == SizeOp::Number ? 0 : slots[step.a];
    int64_t result = kNone;
    if (a != kNone && b != kNone) {
      switch (step.op) {
#define X(name, value) \
  case SizeOp::name:   \
    result = (value);  \
    break;
        FIRESTEEL_SIZE_OPS(X)
#undef X
      }
    } else if (step.op >= SizeOp::Eq && step.op <= SizeOp::Ge) {
      result = 0;  // a comparison without a value does not hold
    }
    if (step.relation >= 0 && result != 1) return step.relation;
    *next++ = result;
  }
  return -1;
}

template <class Use>
auto with_slots(const SizeSteps& program, Use use) {
  if (program.slots() <= kSlots) {
    int64_t slots[kSlots];
    return use(slots);
  }
  std::vector<int64_t> slots(program.slots());
  return use(slots.data());
}

SizeOp op_of(DimOp op) {
  switch (op) {
#define X(name, text) \
  case DimOp::name:   \
    return SizeOp::name;
    FIRESTEEL_DIM_OPS(X)
#undef X
    case DimOp::Symbol:
      break;
  }
  FS_CHECK(false, "a symbol is no operation");
}

bool commutes(SizeOp op) {
  return op != SizeOp::FloorDiv && op != SizeOp::Mod && !(op >= SizeOp::Lt && op <= SizeOp::Ge);
}

}  // namespace

uint32_t SizeSteps::add(SizeOp op, uint32_t a, uint32_t b, int64_t number) {
  auto [entry, is_new] = known_.try_emplace({op, a, b, number}, static_cast<uint32_t>(slots()));
  if (is_new) steps_.push_back({op, a, b, -1, number});
  return entry->second;
}

uint32_t SizeSteps::binary(SizeOp op, const Dim& lhs, const Dim& rhs) {
  if (rhs.is_number()) return add(op, slot(lhs), SizeStep::kIsNumber, rhs.number());
  if (lhs.is_number() && commutes(op)) return add(op, slot(rhs), SizeStep::kIsNumber, lhs.number());
  uint32_t a = slot(lhs);
  return add(op, a, slot(rhs), 0);
}

uint32_t SizeSteps::slot(const Dim& dim) {
  if (dim.is_number()) return add(SizeOp::Number, 0, SizeStep::kIsNumber, dim.number());
  const DimExpr& expr = *dim.expr();
  if (expr.op != DimOp::Symbol) return binary(op_of(expr.op), expr.lhs, expr.rhs);
  auto found = std::find(symbols_.begin(), symbols_.end(), expr.name);
  FS_CHECK(found != symbols_.end(), "the symbol {} has no value to be read from", expr.name);
  return static_cast<uint32_t>(found - symbols_.begin());
}

uint32_t SizeSteps::compare(const Relation& relation) {
  const Dim& lhs = relation.lhs();
  const Dim& rhs = relation.rhs();
  switch (relation.kind()) {
    case RelationKind::Eq:
      return binary(SizeOp::Eq, lhs, rhs);
    case RelationKind::Ne:
      return binary(SizeOp::Ne, lhs, rhs);
    case RelationKind::Lt:
      return lhs.is_number() ? binary(SizeOp::Gt, rhs, lhs) : binary(SizeOp::Lt, lhs, rhs);
    default:
      return lhs.is_number() ? binary(SizeOp::Ge, rhs, lhs) : binary(SizeOp::Le, lhs, rhs);
  }
}

uint32_t SizeSteps::slot(const Relation& relation) {
  if (relation.is_known()) return slot(Dim(relation.value() ? 1 : 0));
  if (relation.is_comparison()) return compare(relation);
  SizeOp op = relation.kind() == RelationKind::And ? SizeOp::And : SizeOp::Or;
  uint32_t result = slot(relation.operands().front());
  for (size_t i = 1; i < relation.operands().size(); i++) result = add(op, result, slot(relation.operands()[i]), 0);
  return result;
}

void SizeSteps::check(const Relation& relation, int index) {
  if (relation.kind() == RelationKind::And) {
    for (const Relation& operand : relation.operands()) check(operand, index);
    return;
  }
  size_t before = steps_.size();
  uint32_t result = slot(relation);
  // A step that was there before belongs to another relation: it is checked where it stands, or looked at anew.
  if (steps_.size() == before) {
    if (steps_[result - symbols_.size()].relation >= 0) return;
    steps_.push_back({SizeOp::Eq, result, SizeStep::kIsNumber, -1, 1});
  }
  steps_.back().relation = index;
}

RelationProgram::RelationProgram(std::span<const Relation> relations, std::span<const std::string> symbols)
    : steps_(symbols) {
  for (size_t i = 0; i < relations.size(); i++) steps_.check(relations[i], static_cast<int>(i));
}

int RelationProgram::run(const int64_t* values) const {
  return with_slots(steps_, [&](int64_t* slots) { return run_steps(steps_, values, slots); });
}

DimProgram::DimProgram(std::span<const Dim> dims, std::span<const std::string> symbols) : steps_(symbols) {
  for (const Dim& dim : dims) results_.push_back(steps_.slot(dim));
}

bool DimProgram::run(const int64_t* values, int64_t* results) const {
  return with_slots(steps_, [&](int64_t* slots) {
    run_steps(steps_, values, slots);
    bool all = true;
    for (uint32_t slot : results_) {
      all = all && slots[slot] != kNone;
      *results++ = slots[slot];
    }
    return all;
  });
}

}  // namespace firesteel
