// Polynomial: from Dims and back, sums, products, exact divisions.
#include "shapes/polynomial.h"

#include <algorithm>
#include <numeric>

namespace firesteel {
namespace {

bool by_text(const Atom& a, const Atom& b) { return a.text < b.text; }

// A product without sums goes into one term, which is quicker than multiplying out. False: it has one, or does not fit.
bool multiply(Term& term, const Dim& dim) {
  if (dim.is_number()) return !__builtin_mul_overflow(term.factor, dim.number(), &term.factor);
  switch (dim.expr()->op) {
    case DimOp::Add:
      return false;
    case DimOp::Mul:
      return multiply(term, dim.expr()->lhs) && multiply(term, dim.expr()->rhs);
    default:
      term.atoms.push_back({dim.str(), dim});
      return true;
  }
}

std::optional<int64_t> exact_quotient(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN) || a % b != 0) return std::nullopt;
  return a / b;
}

}  // namespace

int64_t common_divisor(int64_t a, int64_t b) {
  auto magnitude = [](int64_t number) {
    return number < 0 ? -static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  };
  uint64_t divisor = std::gcd(magnitude(a), magnitude(b));
  return divisor > INT64_MAX ? 1 : static_cast<int64_t>(divisor);
}

std::string Term::key() const {
  std::string key;
  for (const Atom& atom : atoms) {
    key += atom.text;
    key += '\x01';  // no symbol's name holds it
  }
  return key;
}

std::optional<std::vector<Atom>> Term::atoms_without(const std::vector<Atom>& divisor) const {
  std::vector<Atom> rest;
  auto next = divisor.begin();
  for (const Atom& atom : atoms) {
    if (next != divisor.end() && next->text == atom.text) {
      ++next;
    } else {
      rest.push_back(atom);
    }
  }
  return next == divisor.end() ? std::optional(std::move(rest)) : std::nullopt;
}

void Polynomial::take(const Dim& dim) {
  if (dim.is_number()) return add({dim.number(), {}});
  switch (dim.expr()->op) {
    case DimOp::Add:
      take(dim.expr()->lhs);
      take(dim.expr()->rhs);
      return;
    case DimOp::Mul: {
      Term term{1, {}};
      if (!multiply(term, dim)) {
        *this += Polynomial(dim.expr()->lhs) * Polynomial(dim.expr()->rhs);
        return;
      }
      std::sort(term.atoms.begin(), term.atoms.end(), by_text);
      add(std::move(term));
      return;
    }
    default:
      add({1, {{dim.str(), dim}}});
  }
}

void Polynomial::add(Term term) {
  if (term.factor == 0 || !ok_) return;
  std::string key = term.key();
  auto same = terms_.find(key);
  if (same == terms_.end()) {
    terms_.emplace(std::move(key), std::move(term));
  } else {
    ok_ = !__builtin_add_overflow(same->second.factor, term.factor, &same->second.factor);
    if (same->second.factor == 0) terms_.erase(same);
  }
  ok_ = ok_ && terms_.size() <= kMostTerms;
}

Polynomial& Polynomial::operator+=(const Polynomial& other) {
  ok_ = ok_ && other.ok_;
  if (this == &other) return *this = *this * 2;
  for (const auto& [key, term] : other.terms_) add(term);
  return *this;
}

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  result.ok_ = a.ok_ && b.ok_;
  for (const auto& [key_a, term_a] : a.terms_) {
    for (const auto& [key_b, term_b] : b.terms_) {
      if (!result.ok_) return result;
      Term term;
      result.ok_ = !__builtin_mul_overflow(term_a.factor, term_b.factor, &term.factor);
      std::merge(term_a.atoms.begin(), term_a.atoms.end(), term_b.atoms.begin(), term_b.atoms.end(),
                 std::back_inserter(term.atoms), by_text);
      result.add(std::move(term));
    }
  }
  return result;
}

int64_t Polynomial::constant() const {
  auto entry = terms_.find("");
  return entry == terms_.end() ? 0 : entry->second.factor;
}

int64_t Polynomial::content() const {
  int64_t content = 0;
  for (const auto& [key, term] : terms_) {
    if (!key.empty()) content = common_divisor(content, term.factor);
  }
  return content;
}

std::vector<Atom> Polynomial::common_atoms() const {
  std::optional<std::vector<Atom>> common;
  for (const auto& [key, term] : terms_) {
    if (!common) {
      common = term.atoms;
      continue;
    }
    std::vector<Atom> both;
    std::set_intersection(common->begin(), common->end(), term.atoms.begin(), term.atoms.end(),
                          std::back_inserter(both), by_text);
    common = std::move(both);
  }
  return common.value_or(std::vector<Atom>{});
}

std::vector<Atom> Polynomial::atoms() const {
  std::vector<Atom> all;
  for (const auto& [key, term] : terms_) all.insert(all.end(), term.atoms.begin(), term.atoms.end());
  std::sort(all.begin(), all.end(), by_text);
  all.erase(std::unique(all.begin(), all.end(), [](auto& a, auto& b) { return a.text == b.text; }), all.end());
  return all;
}

std::optional<Polynomial> Polynomial::divided(const Term& divisor) const {
  Polynomial result;
  result.ok_ = ok_;
  for (const auto& [key, term] : terms_) {
    auto rest = term.atoms_without(divisor.atoms);
    auto factor = exact_quotient(term.factor, divisor.factor);
    if (!rest || !factor) return std::nullopt;
    result.add({*factor, std::move(*rest)});
  }
  return result;
}

// Long division by leading terms.
std::optional<Polynomial> Polynomial::divided(const Polynomial& divisor) const {
  if (!ok_ || !divisor.ok_ || divisor.terms_.empty()) return std::nullopt;
  if (divisor.terms_.size() == 1) return divided(divisor.terms_.begin()->second);
  Polynomial rest = *this;
  Polynomial result;
  const Term& leading = divisor.leading();
  while (!rest.terms_.empty()) {
    const Term& next = rest.leading();
    auto atoms = next.atoms_without(leading.atoms);
    auto factor = exact_quotient(next.factor, leading.factor);
    if (!atoms || !factor) return std::nullopt;
    Polynomial quotient(Term{*factor, std::move(*atoms)});
    result += quotient;
    rest -= quotient * divisor;
    if (!rest.ok_ || !result.ok_) return std::nullopt;
  }
  return result;
}

// The first of those with most atoms: an order that multiplication keeps, so that a division comes to an end.
const Term& Polynomial::leading() const {
  return std::max_element(terms_.begin(), terms_.end(),
                          [](auto& a, auto& b) { return a.second.atoms.size() < b.second.atoms.size(); })
      ->second;
}

Dim Polynomial::dim() const {
  Dim sum = 0;
  for (const auto& [key, term] : terms_) {
    Dim product = term.factor;
    for (const Atom& atom : term.atoms) product = product * atom.dim;
    sum = sum + product;
  }
  return sum;
}

bool operator==(const Polynomial& a, const Polynomial& b) {
  return a.ok_ && b.ok_ && a.terms_.size() == b.terms_.size() &&
         std::equal(a.terms_.begin(), a.terms_.end(), b.terms_.begin(),
                    [](auto& x, auto& y) { return x.first == y.first && x.second.factor == y.second.factor; });
}

}  // namespace firesteel
