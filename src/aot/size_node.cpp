// Arithmetic and questions on sizes of a trace.
#include "aot/size_node.h"

#include <cmath>

#include "base/error.h"

namespace firesteel {

using c10::SymNode;

namespace {

// One where it holds, else zero.
Dim as_dim(const Relation& relation) {
  auto at_most_one = [](const Dim& count) { return Dim::make(DimOp::Min, 1, Dim::make(DimOp::Max, 0, count)); };
  auto difference = [](const Dim& a, const Dim& b) { return a + Dim(-1) * b; };
  if (relation.is_known()) return relation.value() ? 1 : 0;
  switch (relation.kind()) {
    case RelationKind::Lt:
      return at_most_one(difference(relation.rhs(), relation.lhs()));
    case RelationKind::Le:
      return at_most_one(difference(relation.rhs(), relation.lhs()) + Dim(1));
    case RelationKind::Ne: {
      const Dim more = difference(relation.lhs(), relation.rhs()), less = difference(relation.rhs(), relation.lhs());
      return at_most_one(Dim::make(DimOp::Max, more, less));
    }
    case RelationKind::Eq:
      return Dim(1) + Dim(-1) * as_dim(relation.negated());
    default:
      break;
  }
  const bool all = relation.kind() == RelationKind::And;
  Dim joined = as_dim(relation.operands()[0]);
  for (size_t i = 1; i < relation.operands().size(); ++i)
    joined = Dim::make(all ? DimOp::Min : DimOp::Max, joined, as_dim(relation.operands()[i]));
  return joined;
}

}  // namespace

// Constants of torch's own may stand beside ours.
const SizeNode::Content& SizeNode::content_of(const SymNode& other) const {
  auto* node = dynamic_cast<SizeNode*>(other.get());
  FS_REQUIRE(node && node->symbols_ == symbols_, TraceError, "a size of another trace, `{}`, reached this one",
             other->str());
  return node->content_;
}

OpenNumbers::Operand SizeNode::operand() const {
  if (const auto* dim = std::get_if<Dim>(&content_)) return *dim;
  if (const auto* relation = std::get_if<Relation>(&content_)) return *relation;
  if (const auto* truth = std::get_if<FloatTruth>(&content_)) return truth->number;
  return std::get<SizeFloat>(content_).number;
}

SizeFloat SizeNode::as_float() const {
  if (const auto* number = std::get_if<SizeFloat>(&content_)) return *number;
  if (const auto* dim = std::get_if<Dim>(&content_)) {
    if (symbols_->numbers && !dim->is_number()) return {symbols_->numbers->compute("float", *dim, nullptr), {}};
    std::vector<Dim> from;
    if (!dim->is_number()) from.push_back(*dim);
    return {{static_cast<double>(symbols_->hint(*dim))}, std::move(from)};
  }
  return {{symbols_->decide(truth()) ? 1.0 : 0.0}, {}};
}

SymNode SizeNode::arithmetic(DimOp op, const char* name, const SymNode& other, double (*on_floats)(double, double)) {
  const Content& right = content_of(other);
  if (is_int() && std::holds_alternative<Dim>(right) && op != DimOp::Symbol)
    return of(symbols_, symbols_->simplify(Dim::make(op, dim(), std::get<Dim>(right))));
  const SizeNode second(symbols_, right);
  const bool of_numbers = !is_truth() && !second.is_truth();
  if (symbols_->numbers && of_numbers) {
    const OpenNumbers::Operand with = second.operand();
    return of(symbols_, SizeFloat{symbols_->numbers->compute(name, operand(), &with), {}});
  }
  SizeFloat a = as_float(), b = second.as_float();
  a.number = {on_floats(a.number.hint, b.number.hint)};
  a.from.insert(a.from.end(), b.from.begin(), b.from.end());
  return of(symbols_, std::move(a));
}

SymNode SizeNode::comparison(Relation (*relate)(const Dim&, const Dim&), const char* name, const SymNode& other,
                             bool (*on_floats)(double, double)) {
  const Content& right = content_of(other);
  if (is_int() && std::holds_alternative<Dim>(right))
    return of(symbols_, relate(symbols_->simplify(dim()), symbols_->simplify(std::get<Dim>(right))));
  const SizeNode second(symbols_, right);
  if (is_truth() && second.is_truth())
    return wrap_bool(on_floats(symbols_->decide(truth()), symbols_->decide(second.truth())));
  if (symbols_->numbers && !is_truth() && !second.is_truth())
    return of(symbols_, FloatTruth{symbols_->numbers->compare(name, operand(), second.operand())});
  return wrap_bool(on_floats(settled_float(), second.settled_float()));
}

SymNode SizeNode::add(const SymNode& other) {
  return arithmetic(DimOp::Add, "add", other, [](double a, double b) { return a + b; });
}
SymNode SizeNode::sub(const SymNode& other) {
  const Content& right = content_of(other);
  if (is_int() && std::holds_alternative<Dim>(right))
    return of(symbols_, symbols_->simplify(dim() + Dim(-1) * std::get<Dim>(right)));
  return arithmetic(DimOp::Symbol, "sub", other, [](double a, double b) { return a - b; });
}
SymNode SizeNode::mul(const SymNode& other) {
  return arithmetic(DimOp::Mul, "mul", other, [](double a, double b) { return a * b; });
}
SymNode SizeNode::truediv(const SymNode& other) {
  return arithmetic(DimOp::Symbol, "truediv", other, [](double a, double b) { return a / b; });
}
SymNode SizeNode::pow(const SymNode& other) {
  const Content& right = content_of(other);
  const Dim* power = std::get_if<Dim>(&right);
  constexpr int64_t kMost = 8;
  if (is_int() && power) {
    const int64_t count = symbols_->specialise(*power);
    if (count >= 0 && count <= kMost) {
      Dim product = 1;
      for (int64_t i = 0; i < count; ++i) product = product * dim();
      return of(symbols_, symbols_->simplify(product));
    }
    FS_REQUIRE(count < 0, TraceError, "a size to the power of {} is too large", count);
  }
  return arithmetic(DimOp::Symbol, "pow", other, [](double a, double b) { return std::pow(a, b); });
}
SymNode SizeNode::floordiv(const SymNode& other) {
  const Content& right = content_of(other);
  if (const Dim* divisor = std::get_if<Dim>(&right))
    TORCH_CHECK(!symbols_->decide(Relation::eq(*divisor, 0)), "ZeroDivisionError: a size is divided by zero");
  return arithmetic(DimOp::FloorDiv, "floordiv", other, [](double a, double b) { return std::floor(a / b); });
}
SymNode SizeNode::mod(const SymNode& other) {
  const Content& right = content_of(other);
  if (const Dim* divisor = std::get_if<Dim>(&right))
    TORCH_CHECK(!symbols_->decide(Relation::eq(*divisor, 0)), "ZeroDivisionError: a size is divided by zero");
  return arithmetic(DimOp::Mod, "mod", other, [](double a, double b) { return a - b * std::floor(a / b); });
}
SymNode SizeNode::eq(const SymNode& other) {
  return comparison(&Relation::eq, "eq", other, [](double a, double b) { return a == b; });
}
SymNode SizeNode::ne(const SymNode& other) {
  return comparison(&Relation::ne, "ne", other, [](double a, double b) { return a != b; });
}
SymNode SizeNode::lt(const SymNode& other) {
  return comparison(&Relation::lt, "lt", other, [](double a, double b) { return a < b; });
}
SymNode SizeNode::le(const SymNode& other) {
  return comparison(&Relation::le, "le", other, [](double a, double b) { return a <= b; });
}
SymNode SizeNode::gt(const SymNode& other) {
  return comparison(&Relation::gt, "gt", other, [](double a, double b) { return a > b; });
}
SymNode SizeNode::ge(const SymNode& other) {
  return comparison(&Relation::ge, "ge", other, [](double a, double b) { return a >= b; });
}
SymNode SizeNode::ceil() { return is_int() ? clone() : wrap_int(static_cast<int64_t>(std::ceil(settled_float()))); }
SymNode SizeNode::floor() { return is_int() ? clone() : wrap_int(static_cast<int64_t>(std::floor(settled_float()))); }
SymNode SizeNode::neg() {
  if (is_int()) return of(symbols_, Dim(-1) * dim());
  SizeFloat number = as_float();
  if (symbols_->numbers) return of(symbols_, SizeFloat{symbols_->numbers->compute("neg", number.number, nullptr), {}});
  number.number = {-number.number.hint};
  return of(symbols_, std::move(number));
}
SymNode SizeNode::sym_min(const SymNode& other) {
  return arithmetic(DimOp::Min, "min", other, [](double a, double b) { return std::min(a, b); });
}
SymNode SizeNode::sym_max(const SymNode& other) {
  return arithmetic(DimOp::Max, "max", other, [](double a, double b) { return std::max(a, b); });
}
SymNode SizeNode::sym_or(const SymNode& other) {
  return of(symbols_, Relation::any({truth(), SizeNode(symbols_, content_of(other)).truth()}));
}
SymNode SizeNode::sym_and(const SymNode& other) {
  return of(symbols_, Relation::all({truth(), SizeNode(symbols_, content_of(other)).truth()}));
}
SymNode SizeNode::sym_not() {
  if (const auto* asked = std::get_if<FloatTruth>(&content_))
    return of(symbols_, FloatTruth{keeper().negate(asked->number)});
  return of(symbols_, truth().negated());
}
SymNode SizeNode::sym_ite(const SymNode& then_value, const SymNode& else_value) {
  SizeNode yes(symbols_, content_of(then_value)), no(symbols_, content_of(else_value));
  const auto *size_if = std::get_if<Dim>(&yes.content_), *size_else = std::get_if<Dim>(&no.content_);
  if (size_if && size_else && std::holds_alternative<Relation>(content_) && !mentions_data(relation())) {
    const Dim one = as_dim(relation());
    return of(symbols_, symbols_->simplify(one * *size_if + (Dim(1) + Dim(-1) * one) * *size_else));
  }
  const bool of_floats = yes.is_float() && no.is_float();
  if (symbols_->numbers && of_floats)
    return of(symbols_, SizeFloat{symbols_->numbers->choose(operand(), yes.operand(), no.operand()), {}});
  return symbols_->decide(truth()) ? then_value : else_value;
}
SymNode SizeNode::sym_float() { return of(symbols_, as_float()); }

Relation SizeNode::truth() const {
  if (const auto* relation = std::get_if<Relation>(&content_)) return *relation;
  if (const auto* dim = std::get_if<Dim>(&content_)) return Relation::ne(*dim, 0);
  if (const auto* asked = std::get_if<FloatTruth>(&content_))
    return Relation::known(asked->number.source ? keeper().decide(asked->number) : asked->number.hint != 0);
  return Relation::known(settled_float() != 0);
}

double SizeNode::settled_float() const {
  const SizeFloat number = as_float();
  for (const Dim& dim : number.from) symbols_->specialise(dim);
  return number.number.source ? keeper().settle(number.number) : number.number.hint;
}

OpenNumbers& SizeNode::keeper() const {
  FS_REQUIRE(symbols_->numbers, EscapedTensorError,
             "a number that changes from call to call belongs to a trace that has ended\n"
             "  try: return it from the traced function instead of storing it away");
  return *symbols_->numbers;
}

int64_t SizeNode::guard_int(const char*, int64_t) {
  if (is_int()) return symbols_->specialise(dim());
  return static_cast<int64_t>(settled_float());
}
bool SizeNode::guard_bool(const char*, int64_t) { return symbols_->decide(truth()); }
double SizeNode::guard_float(const char*, int64_t) { return settled_float(); }

bool SizeNode::guard_or_false(const char* file, int64_t line) {
  if (asks_of_sizes() && mentions_data(relation())) return symbols_->known(relation()).value_or(false);
  return guard_bool(file, line);
}
bool SizeNode::guard_or_true(const char* file, int64_t line) {
  if (asks_of_sizes() && mentions_data(relation())) return symbols_->known(relation()).value_or(true);
  return guard_bool(file, line);
}
bool SizeNode::expect_true(const char* file, int64_t line) {
  if (!asks_of_sizes() || !mentions_data(relation()) || symbols_->known(relation())) return guard_bool(file, line);
  symbols_->require(relation());
  return true;
}

bool SizeNode::statically_known_true(const char*, int64_t) { return symbols_->proves(truth()); }

std::string SizeNode::str() {
  if (is_int()) return dim().str();
  if (asks_of_sizes()) return relation().str();
  if (is_bool()) return std::get<FloatTruth>(content_).number.hint != 0 ? "True" : "False";
  return std::to_string(std::get<SizeFloat>(content_).number.hint);
}

std::optional<int64_t> SizeNode::maybe_as_int() {
  return is_int() && dim().is_number() ? std::optional(dim().number()) : std::nullopt;
}
std::optional<bool> SizeNode::constant_bool() {
  if (!asks_of_sizes()) return std::nullopt;
  return std::get<Relation>(content_).evaluate([](std::string_view) { return std::nullopt; });
}

}  // namespace firesteel
