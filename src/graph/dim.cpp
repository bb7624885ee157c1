// Dim: building in one canonical order, evaluating, printing.
#include "graph/dim.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace firesteel {
namespace {

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}

std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

// Python's rules: the quotient rounds down, the remainder takes the divisor's sign.
std::optional<int64_t> floor_div(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  int64_t quotient = a / b;
  return (a % b != 0 && (a % b < 0) != (b < 0)) ? quotient - 1 : quotient;
}

std::optional<int64_t> floor_mod(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;
  int64_t rest = a % b;
  return (rest != 0 && (rest < 0) != (b < 0)) ? rest + b : rest;
}

}  // namespace

std::optional<int64_t> compute(DimOp op, int64_t a, int64_t b) {
  switch (op) {
    case DimOp::Add:
      return checked_add(a, b);
    case DimOp::Mul:
      return checked_mul(a, b);
    case DimOp::FloorDiv:
      return floor_div(a, b);
    case DimOp::Mod:
      return floor_mod(a, b);
    case DimOp::Min:
      return std::min(a, b);
    case DimOp::Max:
      return std::max(a, b);
    case DimOp::Symbol:
      break;
  }
  return std::nullopt;
}

namespace {

bool is_op(const Dim& dim, DimOp op) { return !dim.is_number() && dim.expr()->op == op; }

using Raw = Dim (*)(DimOp, Dim, Dim);

// A product is kept as number * atom * atom …, atoms ordered by their text.
struct Product {
  int64_t factor = 1;
  std::vector<std::pair<std::string, Dim>> atoms;

  bool take(const Dim& dim) {
    if (dim.is_number()) {
      auto folded = checked_mul(factor, dim.number());
      if (folded) factor = *folded;
      return folded.has_value();
    }
    if (dim.expr()->op == DimOp::Mul) return take(dim.expr()->lhs) && take(dim.expr()->rhs);
    atoms.emplace_back(dim.str(), dim);
    return true;
  }

  Dim build_atoms(Raw raw) {
    std::stable_sort(atoms.begin(), atoms.end(), [](auto& a, auto& b) { return a.first < b.first; });
    Dim result = atoms.front().second;
    for (size_t i = 1; i < atoms.size(); i++) result = raw(DimOp::Mul, result, atoms[i].second);
    return result;
  }
};

// A sum is kept as number*product + … + number, equal products gathered.
struct Sum {
  struct Term {
    std::string text;
    int64_t factor;
    Dim product;
  };
  int64_t offset = 0;
  std::vector<Term> terms;

  bool take(const Dim& dim, int64_t factor, Raw raw) {
    if (dim.is_number()) {
      auto scaled = checked_mul(dim.number(), factor);
      auto folded = scaled ? checked_add(offset, *scaled) : std::nullopt;
      if (folded) offset = *folded;
      return folded.has_value();
    }
    if (dim.expr()->op == DimOp::Add) return take(dim.expr()->lhs, factor, raw) && take(dim.expr()->rhs, factor, raw);
    Product product;
    if (!product.take(dim)) return false;
    auto scaled = checked_mul(product.factor, factor);
    if (!scaled) return false;
    Dim atoms = product.build_atoms(raw);
    std::string text = atoms.str();
    auto same = std::find_if(terms.begin(), terms.end(), [&](const Term& term) { return term.text == text; });
    if (same == terms.end()) {
      terms.push_back({std::move(text), *scaled, std::move(atoms)});
      return true;
    }
    auto gathered = checked_add(same->factor, *scaled);
    if (gathered) same->factor = *gathered;
    return gathered.has_value();
  }

  Dim build(Raw raw) {
    std::erase_if(terms, [](const Term& term) { return term.factor == 0; });
    if (terms.empty()) return offset;
    std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.text < b.text; });
    std::optional<Dim> result;
    for (const Term& term : terms) {
      Dim scaled = term.factor == 1 ? term.product : raw(DimOp::Mul, term.factor, term.product);
      result = result ? raw(DimOp::Add, *result, scaled) : scaled;
    }
    return offset == 0 ? *result : raw(DimOp::Add, *result, offset);
  }
};

std::optional<Dim> canonical(DimOp op, const Dim& lhs, const Dim& rhs, Raw raw) {
  switch (op) {
    case DimOp::Add: {
      Sum sum;
      if (!sum.take(lhs, 1, raw) || !sum.take(rhs, 1, raw)) return std::nullopt;
      return sum.build(raw);
    }
    case DimOp::Mul: {
      // A number goes into a sum, so that 2*(s0 + 1) and 2*s0 + 2 are one expression.
      const Dim& number = lhs.is_number() ? lhs : rhs;
      const Dim& other = lhs.is_number() ? rhs : lhs;
      if (number.is_number() && is_op(other, DimOp::Add)) {
        Sum sum;
        if (!sum.take(other, number.number(), raw)) return std::nullopt;
        return sum.build(raw);
      }
      Product product;
      if (!product.take(lhs) || !product.take(rhs)) return std::nullopt;
      if (product.factor == 0) return Dim(0);
      Dim atoms = product.build_atoms(raw);
      return product.factor == 1 ? atoms : raw(DimOp::Mul, product.factor, atoms);
    }
    case DimOp::FloorDiv:
      return rhs == Dim(1) ? std::optional(lhs) : std::nullopt;
    case DimOp::Mod:
      return rhs == Dim(1) ? std::optional(Dim(0)) : std::nullopt;
    case DimOp::Min:
    case DimOp::Max:
      if (lhs == rhs) return lhs;
      if (lhs.is_number() || (!rhs.is_number() && rhs.str() < lhs.str())) return raw(op, rhs, lhs);
      return std::nullopt;
    case DimOp::Symbol:
      break;
  }
  return std::nullopt;
}

const char* spelling(DimOp op) {
  switch (op) {
#define X(name, text) \
  case DimOp::name:   \
    return text;
    FIRESTEEL_DIM_OPS(X)
#undef X
    case DimOp::Symbol:
      break;
  }
  return "";
}

int precedence(const Dim& dim) {
  if (dim.is_number()) return dim.number() < 0 ? 2 : 3;
  switch (dim.expr()->op) {
    case DimOp::Add:
      return 1;
    case DimOp::Mul:
    case DimOp::FloorDiv:
    case DimOp::Mod:
      return 2;
    default:
      return 3;
  }
}

std::string wrapped(const Dim& dim, bool parentheses) {
  return parentheses ? fmt::format("({})", dim.str()) : dim.str();
}

// The leading number of a printed term, where it is negative: `s0 - 2*s1` reads better than `s0 + -2*s1`.
bool is_negative(const Dim& dim) {
  if (dim.is_number()) return dim.number() < 0;
  return is_op(dim, DimOp::Mul) && dim.expr()->lhs.is_number() && dim.expr()->lhs.number() < 0;
}

}  // namespace

Dim Dim::symbol(std::string name) {
  return Dim(std::make_shared<const DimExpr>(DimExpr{DimOp::Symbol, std::move(name), {}, {}}));
}

Dim Dim::make(DimOp op, Dim lhs, Dim rhs) {
  FS_CHECK(op != DimOp::Symbol, "a symbol is made by Dim::symbol");
  if (lhs.is_number() && rhs.is_number()) {
    if (auto number = compute(op, lhs.number(), rhs.number())) return *number;
  }
  Raw raw = [](DimOp op, Dim lhs, Dim rhs) {
    return Dim(std::make_shared<const DimExpr>(DimExpr{op, {}, std::move(lhs), std::move(rhs)}));
  };
  // What cannot be folded (a division by zero, a sum past 64 bits) stays as written and evaluates to nothing.
  if (auto dim = canonical(op, lhs, rhs, raw)) return *dim;
  return raw(op, std::move(lhs), std::move(rhs));
}

std::optional<int64_t> Dim::evaluate(const Lookup& lookup) const {
  if (is_number()) return number_;
  if (expr_->op == DimOp::Symbol) return lookup(expr_->name);
  auto lhs = expr_->lhs.evaluate(lookup);
  auto rhs = lhs ? expr_->rhs.evaluate(lookup) : std::nullopt;
  return rhs ? compute(expr_->op, *lhs, *rhs) : std::nullopt;
}

std::string Dim::str() const {
  if (is_number()) return std::to_string(number_);
  const auto& [op, name, lhs, rhs] = *expr_;
  switch (op) {
    case DimOp::Symbol:
      return name;
    case DimOp::Min:
    case DimOp::Max:
      return fmt::format("{}({}, {})", spelling(op), lhs.str(), rhs.str());
    case DimOp::Add:
      if (is_negative(rhs)) {
        std::string text = rhs.str();
        return fmt::format("{} - {}", lhs.str(), text.substr(text.starts_with("-1*") ? 3 : 1));
      }
      return fmt::format("{} + {}", lhs.str(), rhs.str());
    default: {
      const char* space = op == DimOp::Mul ? "" : " ";
      // A leading negative number needs no parentheses: `-2*s0` reads back as (-2)*s0.
      std::string left = wrapped(lhs, precedence(lhs) < 2);
      bool product_of_product = op == DimOp::Mul && is_op(rhs, DimOp::Mul) && !is_negative(rhs);
      std::string right = wrapped(rhs, precedence(rhs) <= 2 && !product_of_product);
      return fmt::format("{}{}{}{}{}", left, space, spelling(op), space, right);
    }
  }
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_number() || b.is_number()) return a.is_number() && b.is_number() && a.number_ == b.number_;
  if (a.expr_ == b.expr_) return true;
  return a.expr_->op == b.expr_->op && a.expr_->name == b.expr_->name && a.expr_->lhs == b.expr_->lhs &&
         a.expr_->rhs == b.expr_->rhs;
}

std::vector<Dim> contiguous_strides(const std::vector<Dim>& sizes) {
  std::vector<Dim> strides(sizes.size());
  Dim stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    // An empty dimension counts as one, as ATen does it.
    if (!(sizes[i].is_number() && sizes[i].number() <= 1)) stride = stride * sizes[i];
  }
  return strides;
}

}  // namespace firesteel
