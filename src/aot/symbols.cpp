// Symbols of a trace: hints, decisions and guards.
#include "aot/symbols.h"

#include <fmt/format.h>

#include "aot/size_node.h"
#include "base/error.h"

namespace firesteel {

Dim Symbols::add(SymbolOrigin origin) {
  origin.name = fmt::format("s{}", origins_.size());
  facts_.add_symbol(origin.name, origin.least, origin.most);
  origins_.push_back(origin);
  return Dim::symbol(origin.name);
}

int64_t Symbols::hint(const Dim& dim) const {
  const auto value = dim.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    for (const SymbolOrigin& origin : origins_) {
      if (origin.name == name) return origin.hint;
    }
    return std::nullopt;
  });
  FS_REQUIRE(value, TraceError, "the size `{}` has no value in this call: it is divided by zero, or too large",
             dim.str());
  return *value;
}

EqualSymbols Symbols::equal_symbols() const {
  EqualSymbols equal;
  for (const SymbolOrigin& origin : origins_) {
    Dim simple = facts_.simplify(Dim::symbol(origin.name));
    const bool other = !simple.is_number() && simple.expr()->op == DimOp::Symbol && simple.expr()->name != origin.name;
    if (other) equal.emplace(origin.name, std::move(simple));
  }
  return equal;
}

bool Symbols::decide(const Relation& relation) {
  if (const std::optional<bool> known = facts_.decide(relation)) return *known;
  const auto answer = relation.evaluate(
      [&](std::string_view name) -> std::optional<int64_t> { return hint(Dim::symbol(std::string(name))); });
  FS_REQUIRE(answer, TraceError, "`{}` has no answer in this call", relation.str());
  Relation held = *answer ? relation : relation.negated();
  facts_.assume(held);
  guards_.push_back({std::move(held), here_ ? here_() : nullptr});
  return *answer;
}

int64_t Symbols::specialise(const Dim& dim) {
  if (dim.is_number()) return dim.number();
  const int64_t number = hint(dim);
  decide(Relation::eq(dim, number));
  return number;
}

c10::SymInt Symbols::sym_int(const Dim& dim) {
  if (dim.is_number() && !c10::SymInt::check_range(dim.number()))
    return c10::SymInt(SizeNode::of(shared_from_this(), dim));
  if (dim.is_number()) return c10::SymInt(dim.number());
  return c10::SymInt(SizeNode::of(shared_from_this(), dim));
}

Symbols* symbols_of(const c10::SymInt& size) {
  if (!size.is_heap_allocated()) return nullptr;
  auto* node = dynamic_cast<SizeNode*>(size.toSymNodeImplUnowned());
  return node ? &node->symbols() : nullptr;
}

Dim dim_of(const c10::SymInt& size) {
  if (!size.is_heap_allocated()) return size.as_int_unchecked();
  if (auto* node = dynamic_cast<SizeNode*>(size.toSymNodeImplUnowned())) return node->dim();
  return size.guard_int(__FILE__, __LINE__);
}

std::vector<Dim> dims_of(c10::SymIntArrayRef sizes) {
  std::vector<Dim> dims;
  dims.reserve(sizes.size());
  for (const c10::SymInt& size : sizes) dims.push_back(dim_of(size));
  return dims;
}

}  // namespace firesteel
