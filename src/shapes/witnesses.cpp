// Witnesses: guessed, and kept where every fact holds.
#include "shapes/witnesses.h"

#include <algorithm>
#include <random>

namespace firesteel {
namespace {

constexpr int kTries = 48;
constexpr size_t kEnough = 12;

Dim::Lookup lookup_in(const Witness& witness) {
  return [&witness](std::string_view name) {
    auto found = witness.find(name);
    return found == witness.end() ? std::nullopt : std::optional(found->second);
  };
}

std::vector<Relation> all_facts(const FactBase& facts) {
  std::vector<Relation> result = facts.held;
  for (const auto& [text, entry] : facts.bounds) {
    if (entry.second.has_low()) result.push_back(Relation::ge(entry.first, entry.second.low));
    if (entry.second.has_high()) result.push_back(Relation::le(entry.first, entry.second.high));
  }
  for (const auto& [text, entry] : facts.replacements) result.push_back(Relation::eq(entry.first, entry.second));
  for (const Polynomial& polynomial : facts.at_most_zero) result.push_back(Relation::le(polynomial.dim(), 0));
  return result;
}

class Guesses {
 public:
  explicit Guesses(const FactBase& facts) : facts_(facts) {}

  Witness next() {
    Witness witness;
    for (const auto& [name, entry] : facts_.bounds) {
      if (entry.first.expr()->op == DimOp::Symbol) witness[name] = value(name, entry.second);
    }
    for (const auto& [name, entry] : facts_.replacements) {
      if (entry.first.expr()->op != DimOp::Symbol) continue;
      if (auto value = entry.second.evaluate(lookup_in(witness))) witness[name] = *value;
    }
    tries_++;
    return witness;
  }

 private:
  int64_t value(const std::string& name, const Interval& bounds) {
    const int64_t spans[] = {1, 3, 9, 40, 300, 5000};
    const int64_t far = int64_t{1} << 60;  // from there on sums might pass 64 bits
    int64_t end = bounds.has_low() ? bounds.low : bounds.has_high() ? bounds.high : 0;
    if (end <= -far || end >= far) return end;
    int64_t least = bounds.has_low() ? end : end - 20;
    int64_t result = least;
    if (tries_ > 0) result += static_cast<int64_t>(random_() % spans[random_() % std::size(spans)]);
    // Sizes are often equal, and often multiples; questions are often about that.
    if (random_() % 4 == 0) result = std::max(least, last_);
    const int64_t steps[] = {1, 1, 8, 64};
    int64_t step = steps[random_() % std::size(steps)];
    int64_t residue = 0;
    auto known = facts_.residues.find(name);
    if (known != facts_.residues.end() && known->second.second.modulus > 0) {
      step = known->second.second.modulus;
      residue = known->second.second.residue;
    }
    int64_t up = (residue - result) % step;
    if (up < 0) up += step;
    if (result + up <= bounds.high) result += up;
    last_ = std::min(result, bounds.high);
    return last_;
  }

  const FactBase& facts_;
  std::minstd_rand random_{1};
  int tries_ = 0;
  int64_t last_ = 0;
};

}  // namespace

std::vector<Witness> find_witnesses(const FactBase& facts) {
  std::vector<Witness> found;
  std::vector<Relation> relations = all_facts(facts);
  Guesses guesses(facts);
  for (int i = 0; i < kTries && found.size() < kEnough; i++) {
    Witness guess = guesses.next();
    auto lookup = lookup_in(guess);
    bool fits =
        std::all_of(relations.begin(), relations.end(), [&](auto& fact) { return fact.evaluate(lookup) == true; });
    if (fits) found.push_back(std::move(guess));
  }
  return found;
}

bool is_open(const Relation& relation, const std::vector<Witness>& witnesses) {
  bool seen[2] = {false, false};
  for (const Witness& witness : witnesses) {
    if (auto value = relation.evaluate(lookup_in(witness))) seen[*value ? 1 : 0] = true;
    if (seen[0] && seen[1]) return true;
  }
  return false;
}

}  // namespace firesteel
