// Symbols of a trace: hints, decisions and guards.
#include "aot/symbols.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aot/ones_like_others.h"
#include "aot/size_node.h"
#include "base/error.h"
#include "graph/data_symbols.h"

namespace firesteel {
namespace {

void collect_names(const Dim& dim, std::string& names) {
  if (dim.is_number()) return;
  if (is_data_symbol(dim) && names.find(dim.expr()->name) == std::string::npos)
    names += (names.empty() ? "" : ", ") + dim.expr()->name;
  if (dim.expr()->op == DimOp::Symbol) return;
  collect_names(dim.expr()->lhs, names);
  collect_names(dim.expr()->rhs, names);
}

void collect_names(const Relation& relation, std::string& names) {
  if (relation.is_comparison()) {
    collect_names(relation.lhs(), names);
    collect_names(relation.rhs(), names);
  } else if (!relation.is_known()) {
    for (const Relation& operand : relation.operands()) collect_names(operand, names);
  }
}

// Its value in the traced call is none that the call has.
bool is_made_up(const SymbolOrigin& origin) { return is_data_symbol(Dim::symbol(origin.name)); }

thread_local bool t_ones_like_others = false;

// Whether a size that data gives is one, or is not.
bool asks_for_one(const Relation& relation) {
  const bool compares = relation.kind() == RelationKind::Eq || relation.kind() == RelationKind::Ne;
  if (!relation.is_comparison() || !compares) return false;
  return (relation.rhs() == Dim(1) && is_data_symbol(relation.lhs())) ||
         (relation.lhs() == Dim(1) && is_data_symbol(relation.rhs()));
}

// Of `12 % n == 0`: the twelve and the n. What divides a number is no larger.
std::optional<std::pair<Dim, Dim>> divided_number(const Relation& relation) {
  if (!relation.is_comparison() || relation.kind() != RelationKind::Eq) return std::nullopt;
  const Dim& rest = relation.rhs() == Dim(0) ? relation.lhs() : relation.rhs();
  const Dim& zero = relation.rhs() == Dim(0) ? relation.rhs() : relation.lhs();
  if (zero != Dim(0) || rest.is_number() || rest.expr()->op != DimOp::Mod) return std::nullopt;
  const Dim& number = rest.expr()->lhs;
  if (!number.is_number() || number.number() <= 0) return std::nullopt;
  return std::pair(number, rest.expr()->rhs);
}

std::string data_names(const Relation& relation) {
  std::string names;
  collect_names(relation, names);
  return names;
}

}  // namespace

Dim Symbols::add(SymbolOrigin origin) {
  // Sizes that hardly come up otherwise, so that rules that take one for another are found out.
  constexpr int64_t kMadeUp[] = {11, 13, 17, 19, 23, 29};
  // A size of an argument that may be any at all is treated as one that data gives.
  const bool made_up = origin.from_data() || (origin.dim >= 0 && origin.least < 2);
  if (made_up) {
    if (data_hints && data_count_ < data_hints->values.size()) {
      origin.hint = data_hints->values[data_count_];
    } else if (origin.from_data() || origin.hint < 2) {  // 0 and 1 are cases of their own
      origin.hint = kMadeUp[(origin.from_data() ? data_count_ : static_cast<size_t>(origin.hint)) % std::size(kMadeUp)];
    }
    ++data_count_;
  }
  origin.name = fmt::format("{}{}", made_up ? 'u' : 's', origins_.size());
  facts_.add_symbol(origin.name, origin.least, origin.most);
  likely_.add_symbol(origin.name, made_up ? std::max<int64_t>(origin.least, 2) : origin.least, origin.most);
  origins_.push_back(origin);
  return Dim::symbol(origin.name);
}

Dim Symbols::add_data(int64_t least) {
  SymbolOrigin origin;
  origin.least = least;
  return add(std::move(origin));
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
    if (is_made_up(origin)) continue;
    Dim simple = facts_.simplify(Dim::symbol(origin.name));
    const bool other = !simple.is_number() && !is_data_symbol(simple) && simple.expr()->op == DimOp::Symbol &&
                       simple.expr()->name != origin.name;
    if (other) equal.emplace(origin.name, std::move(simple));
  }
  return equal;
}

bool Symbols::decide_layout(const Relation& relation) {
  if (!mentions_data(relation)) return decide(relation);
  const std::optional<bool> answer = known(relation);
  return answer ? *answer : decide_by_data(relation, /*of_layout=*/true);
}

bool Symbols::decide(const Relation& relation) {
  if (const std::optional<bool> known = facts_.decide(relation)) return *known;
  if (mentions_data(relation)) return decide_by_data(relation, /*of_layout=*/false);
  const auto answer = relation.evaluate(
      [&](std::string_view name) -> std::optional<int64_t> { return hint(Dim::symbol(std::string(name))); });
  FS_REQUIRE(answer, TraceError, "`{}` has no answer in this call", relation.str());
  Relation held = *answer ? relation : relation.negated();
  know(held);
  guards_.push_back({std::move(held), here_ ? here_() : nullptr});
  return *answer;
}

bool Symbols::decide_by_data(const Relation& relation, bool of_layout) {
  if (t_ones_like_others && asks_for_one(relation)) return relation.kind() == RelationKind::Ne;
  const std::optional<bool> likely = likely_.contradictory() ? std::nullopt : likely_.decide(relation);
  if (!likely) {
    refuse(fmt::format("`{}`, where {} is computed from data", relation.str(), data_names(relation)));
    FS_CHECK(false, "a trace went on that was refused");
  }
  require(*likely ? relation : relation.negated(), of_layout);
  return *likely;
}

bool Symbols::is_one(const Dim& size) {
  const Relation relation = Relation::eq(size, 1);
  if (mentions_data(size)) return known(relation).value_or(false);
  return decide(relation);
}

void Symbols::keep(const Relation& order) {
  const bool holds = mentions_data(order) && !likely_.contradictory() && likely_.decide(order) == true;
  if (!holds) decide_layout(order);
}

void Symbols::know(const Relation& relation) {
  facts_.assume(relation);
  if (any_data()) likely_.assume(relation);
  if (const auto divided = divided_number(relation)) know(Relation::le(divided->second, divided->first));
  const auto lookup = [&](std::string_view name) -> std::optional<int64_t> {
    return hint(Dim::symbol(std::string(name)));
  };
  if (mentions_data(relation) && relation.evaluate(lookup) == false) make_up_again(relation);
}

OnesLikeOthers::OnesLikeOthers() : before_(std::exchange(t_ones_like_others, true)) {}
OnesLikeOthers::~OnesLikeOthers() { t_ones_like_others = before_; }

void Symbols::require(const Relation& relation, bool of_layout) {
  know(relation);
  data_conditions_.push_back({{relation, here_ ? here_() : nullptr}, of_layout});
  if (!hints_meet_conditions()) make_up_again(relation);
}

bool Symbols::hints_meet_conditions() const {
  auto lookup = [&](std::string_view name) -> std::optional<int64_t> { return hint(Dim::symbol(std::string(name))); };
  return std::all_of(data_conditions_.begin(), data_conditions_.end(),
                     [&](const DataCondition& guard) { return guard.relation.evaluate(lookup) == true; });
}

// Tensors have the sizes that were made up before: all starts again with one that meets the conditions.
void Symbols::make_up_again(const Relation& relation) {
  const auto lookup = [&](std::string_view name) -> std::optional<int64_t> {
    return hint(Dim::symbol(std::string(name)));
  };
  std::vector<int64_t> tried;
  if (relation.is_comparison()) {
    for (const Dim& side : {relation.lhs(), relation.rhs()}) {
      for (int64_t by : {0, -1, 1}) tried.push_back(hint(side) + by);
    }
  }
  for (int64_t i = 2; i <= 64; ++i) tried.push_back(i);
  for (int64_t i : {1, 0, 128, 256, 1024, -1, -2}) tried.push_back(i);
  bool found = false;
  for (SymbolOrigin& origin : origins_) {
    if (!is_made_up(origin) || found) continue;
    const int64_t before = origin.hint;
    for (int64_t value : tried) {
      origin.hint = value;
      found = value >= origin.least && value <= origin.most && hints_meet_conditions() &&
              relation.evaluate(lookup) == true &&
              facts_.decide(Relation::eq(Dim::symbol(origin.name), value)) != false;
      if (found) break;
    }
    if (!found) origin.hint = before;
  }
  if (found && data_hints) {
    data_hints->changed = true;
    data_hints->values.clear();
    for (const SymbolOrigin& origin : origins_) {
      if (is_made_up(origin)) data_hints->values.push_back(origin.hint);
    }
  }
  refuse(fmt::format("`{}`, where {} is computed from data", relation.str(), data_names(relation)));
}

int64_t Symbols::specialise(const Dim& dim) {
  if (dim.is_number()) return dim.number();
  if (any_data()) {
    if (const Dim simple = simplify(dim); simple.is_number()) return simple.number();
  }
  const int64_t number = hint(dim);
  // What is known rules the made-up number out: there is none that could stand for all.
  if (const Relation same = Relation::eq(dim, number); !decide(same))
    refuse(fmt::format("`{}`, where {} is computed from data", same.str(), data_names(same)));
  return number;
}

c10::SymInt Symbols::sym_int(const Dim& dim) {
  if (dim.is_number() && !c10::SymInt::check_range(dim.number()))
    return c10::SymInt(SizeNode::of(shared_from_this(), dim));
  if (dim.is_number()) return c10::SymInt(dim.number());
  return c10::SymInt(SizeNode::of(shared_from_this(), dim));
}

c10::SymBool Symbols::sym_bool(const Relation& relation) {
  return c10::SymBool(SizeNode::of(shared_from_this(), relation));
}

std::optional<Relation> relation_of(const c10::SymNodeImpl& truth) {
  const auto* node = dynamic_cast<const SizeNode*>(&truth);
  return node && std::holds_alternative<Relation>(node->content()) ? std::optional(node->relation()) : std::nullopt;
}

bool mentions_data(const Relation& relation) {
  if (relation.is_known()) return false;
  if (relation.is_comparison()) return mentions_data(relation.lhs()) || mentions_data(relation.rhs());
  return std::any_of(relation.operands().begin(), relation.operands().end(),
                     [](const Relation& operand) { return mentions_data(operand); });
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
