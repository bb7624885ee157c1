// What is asked of sizes: a comparison of two Dims, and `and`, `or` of these.
//
// Rules: a Relation is immutable and cheap to copy. Building folds what is known without facts and brings a comparison
// into one form (both sides' difference, multiplied out, common factor divided out), so that the same question asked in
// two ways is one Relation. A negation goes down to the comparisons, whose opposites are comparisons again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/dim.h"

namespace firesteel {

// One table drives the enum and the printer: kind, spelling.
#define FIRESTEEL_RELATION_KINDS(X) \
  X(Known, "")                      \
  X(Eq, "==")                       \
  X(Ne, "!=")                       \
  X(Lt, "<")                        \
  X(Le, "<=")                       \
  X(And, "and")                     \
  X(Or, "or")

enum class RelationKind : uint8_t {
#define X(name, text) name,
  FIRESTEEL_RELATION_KINDS(X)
#undef X
};

struct RelationExpr;

class FIRESTEEL_API Relation {
 public:
  static Relation known(bool value);
  static Relation eq(const Dim& a, const Dim& b) { return compare(RelationKind::Eq, a, b); }
  static Relation ne(const Dim& a, const Dim& b) { return compare(RelationKind::Ne, a, b); }
  static Relation lt(const Dim& a, const Dim& b) { return compare(RelationKind::Lt, a, b); }
  static Relation le(const Dim& a, const Dim& b) { return compare(RelationKind::Le, a, b); }
  static Relation gt(const Dim& a, const Dim& b) { return lt(b, a); }
  static Relation ge(const Dim& a, const Dim& b) { return le(b, a); }
  static Relation all(std::vector<Relation> operands) { return gather(RelationKind::And, std::move(operands)); }
  static Relation any(std::vector<Relation> operands) { return gather(RelationKind::Or, std::move(operands)); }
  Relation negated() const;

  RelationKind kind() const;
  bool is_known() const { return kind() == RelationKind::Known; }
  bool is_comparison() const;
  bool value() const;                             // Known
  const Dim& lhs() const;                         // comparisons
  const Dim& rhs() const;                         // comparisons
  const std::vector<Relation>& operands() const;  // And, Or: at least two, in one order, each once

  // Nothing where a symbol has no value, or an expression none (a division by zero, a product past 64 bits).
  std::optional<bool> evaluate(const Dim::Lookup& lookup) const;
  std::string str() const;
  size_t hash() const;
  FIRESTEEL_API friend bool operator==(const Relation& a, const Relation& b);
  friend bool operator!=(const Relation& a, const Relation& b) { return !(a == b); }

 private:
  explicit Relation(RelationExpr expr);
  static Relation compare(RelationKind kind, const Dim& a, const Dim& b);
  static Relation gather(RelationKind kind, std::vector<Relation> operands);

  std::shared_ptr<const RelationExpr> expr_;
};

struct RelationExpr {
  RelationKind kind;
  bool value = false;              // Known
  Dim lhs, rhs;                    // comparisons
  std::vector<Relation> operands;  // And, Or
};

struct RelationHash {
  size_t operator()(const Relation& relation) const { return relation.hash(); }
};

}  // namespace firesteel
