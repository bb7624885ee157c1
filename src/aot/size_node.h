// The node behind a `SymInt`, `SymBool` or `SymFloat` of a trace.
#pragma once

#include <variant>

#include <c10/core/SymNodeImpl.h>

#include "aot/open_numbers.h"
#include "aot/symbols.h"

namespace firesteel {

// A floating-point number made of sizes, or of numbers that the language layer keeps. It may be passed on; whoever
// looks at it settles what it came from.
struct SizeFloat {
  OpenNumber number;
  std::vector<Dim> from;  // where no one keeps such numbers
};
// What is asked of such numbers.
struct FloatTruth {
  OpenNumber number;
};

class FIRESTEEL_API SizeNode final : public c10::SymNodeImpl {
 public:
  using Content = std::variant<Dim, Relation, SizeFloat, FloatTruth>;
  SizeNode(std::shared_ptr<Symbols> symbols, Content content)
      : symbols_(std::move(symbols)), content_(std::move(content)) {}
  static c10::SymNode of(std::shared_ptr<Symbols> symbols, Content content) {
    return c10::make_intrusive<SizeNode>(std::move(symbols), std::move(content));
  }

  Symbols& symbols() const { return *symbols_; }
  // Only of an int.
  const Dim& dim() const { return std::get<Dim>(content_); }
  const Relation& relation() const { return std::get<Relation>(content_); }  // only of a bool about sizes
  const Content& content() const { return content_; }
  // As the keeper of numbers takes it.
  OpenNumbers::Operand operand() const;

  bool is_int() override { return std::holds_alternative<Dim>(content_); }
  bool is_bool() override { return is_truth(); }
  bool is_float() override { return std::holds_alternative<SizeFloat>(content_); }

  c10::SymNode add(const c10::SymNode& other) override;
  c10::SymNode sub(const c10::SymNode& other) override;
  c10::SymNode mul(const c10::SymNode& other) override;
  c10::SymNode truediv(const c10::SymNode& other) override;
  c10::SymNode pow(const c10::SymNode& other) override;
  c10::SymNode floordiv(const c10::SymNode& other) override;
  c10::SymNode mod(const c10::SymNode& other) override;
  c10::SymNode eq(const c10::SymNode& other) override;
  c10::SymNode ne(const c10::SymNode& other) override;
  c10::SymNode gt(const c10::SymNode& other) override;
  c10::SymNode lt(const c10::SymNode& other) override;
  c10::SymNode le(const c10::SymNode& other) override;
  c10::SymNode ge(const c10::SymNode& other) override;
  c10::SymNode ceil() override;
  c10::SymNode floor() override;
  c10::SymNode neg() override;
  c10::SymNode sym_min(const c10::SymNode& other) override;
  c10::SymNode sym_max(const c10::SymNode& other) override;
  c10::SymNode sym_or(const c10::SymNode& other) override;
  c10::SymNode sym_and(const c10::SymNode& other) override;
  c10::SymNode sym_not() override;
  c10::SymNode sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) override;
  c10::SymNode clone() override { return of(symbols_, content_); }
  c10::SymNode sym_float() override;
  c10::SymNode wrap_int(int64_t number) override { return of(symbols_, Dim(number)); }
  c10::SymNode wrap_float(double number) override { return of(symbols_, SizeFloat{{number}, {}}); }
  c10::SymNode wrap_bool(bool truth) override { return of(symbols_, Relation::known(truth)); }
  int64_t guard_int(const char* file, int64_t line) override;
  bool guard_bool(const char* file, int64_t line) override;
  double guard_float(const char* file, int64_t line) override;
  int64_t int_() override { return guard_int(__FILE__, __LINE__); }
  bool bool_() override { return guard_bool(__FILE__, __LINE__); }
  // Torch's ways to ask where it can do with either answer, or goes on only where the answer is yes.
  bool guard_or_false(const char* file, int64_t line) override;
  bool guard_or_true(const char* file, int64_t line) override;
  bool expect_true(const char* file, int64_t line) override;
  // Only what holds for all sizes.
  bool statically_known_true(const char* file, int64_t line) override;
  bool has_hint() override { return true; }
  std::string str() override;
  std::optional<int64_t> maybe_as_int() override;
  std::optional<int64_t> constant_int() override { return maybe_as_int(); }
  std::optional<bool> constant_bool() override;
  bool is_constant() override { return constant_bool() || maybe_as_int(); }
  bool is_symbolic() override { return true; }

 private:
  c10::SymNode arithmetic(DimOp op, const char* name, const c10::SymNode& other, double (*on_floats)(double, double));
  c10::SymNode comparison(Relation (*relate)(const Dim&, const Dim&), const char* name, const c10::SymNode& other,
                          bool (*on_floats)(double, double));
  bool asks_of_sizes() const { return std::holds_alternative<Relation>(content_); }
  bool is_truth() const { return asks_of_sizes() || std::holds_alternative<FloatTruth>(content_); }
  OpenNumbers& keeper() const;
  const Content& content_of(const c10::SymNode& other) const;
  SizeFloat as_float() const;
  double settled_float() const;
  Relation truth() const;

  std::shared_ptr<Symbols> symbols_;
  Content content_;
};

}  // namespace firesteel
