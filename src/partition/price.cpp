// Prices of saving and of computing again; the table stands in price.h.
#include "partition/price.h"

#include <algorithm>
#include <limits>

namespace firesteel {
namespace {

constexpr int64_t kUnit = 16;           // prices count sixteenths of a byte, so that fractions stay whole numbers
constexpr int64_t kOverhead = 64;       // of one more tensor to keep, or one more operator to run
constexpr int64_t kNumberBytes = 1024;  // numbers are computed again where they can be
constexpr int64_t kTypicalSize = 64;    // stands for a symbolic size
constexpr int32_t kMostDistance = 1 << 10;
constexpr int64_t kMostBytes = int64_t{1} << 42;

int64_t bytes_of(const Type& type) {
  if (!type.is_tensor()) return 0;
  if (std::optional<int64_t> known = type.nbytes()) return std::clamp<int64_t>(*known, 0, kMostBytes);
  double bytes = static_cast<double>(c10::elementSize(type.dtype));
  for (const Dim& size : type.sizes)
    bytes *= static_cast<double>(size.evaluate([](std::string_view) { return kTypicalSize; }).value_or(kTypicalSize));
  return static_cast<int64_t>(std::clamp<double>(bytes, 0, kMostBytes));
}

}  // namespace

Prices::Prices(const JointFacts& facts)
    : facts_(facts),
      in_memory_(facts.values.size(), 0),
      read_late_(facts.values.size(), 0),
      read_by_library_(facts.values.size(), 0) {
  bytes_.reserve(facts.values.size());
  for (const ValueFacts& value : facts.values) bytes_.push_back(bytes_of(value.value->type));
  find_in_memory();
  find_distances();
}

// The stage of a node is how many library calls, one after the other, it comes after. Only nodes of one stage can fuse,
// so what is read in a later stage than it is made in goes through memory.
void Prices::find_in_memory() {
  for (const ValueFacts& value : facts_.values)
    if (value.forward_output) in_memory_[value.root] = true;
  std::vector<int32_t> made_in(facts_.values.size(), 0);  // by value: the first stage that can read it
  for (const NodeFacts& node : facts_.nodes) {
    const bool is_library_call = node.op_class == OpClass::Expensive;
    if (node.late) {
      for (int32_t input : facts_.inputs(node)) {
        read_late_[facts_.values[input].root] = true;
        read_by_library_[facts_.values[input].root] |= is_library_call;
      }
      continue;
    }
    int32_t stage = 0;
    for (int32_t input : facts_.inputs(node)) stage = std::max(stage, made_in[input]);
    for (int32_t input : facts_.inputs(node))
      in_memory_[facts_.values[input].root] |= is_library_call || stage > made_in[input];
    for (size_t i = 0; i < node.node->outputs.size(); ++i) {
      made_in[node.first_output + i] = stage + is_library_call;
      in_memory_[facts_.values[node.first_output + i].root] |= node.op_class >= OpClass::Moderate;
    }
  }
}

void Prices::find_distances() {
  constexpr int32_t kUnread = std::numeric_limits<int32_t>::max();
  distance_.assign(facts_.nodes.size(), kUnread);
  for (size_t n = facts_.nodes.size(); n-- > 0;) {
    const NodeFacts& node = facts_.nodes[n];
    if (!node.late && distance_[n] == kUnread) {
      distance_[n] = 0;  // if the backward wants it at all, it is a gradient itself
      continue;
    }
    const int32_t to_inputs = node.late ? 0 : distance_[n] + (node.op_class == OpClass::Free ? 0 : 1);
    for (int32_t input : facts_.inputs(node)) {
      const int32_t def = facts_.values[input].def;
      if (def >= 0) distance_[def] = std::min(distance_[def], to_inputs);
    }
  }
}

bool Prices::may_recompute(int32_t n) const {
  const NodeFacts& node = facts_.nodes[n];
  return node.moved || (node.repeatable && (node.op_class != OpClass::Expensive || !node.required));
}

int64_t Prices::save(int32_t v) const {
  const ValueFacts& value = facts_.values[v];
  if (!value.value->type.is_tensor()) return kUnit * kNumberBytes;
  const bool copied = value.def < 0;  // asked for mutated inputs only
  // Only where eager's backward reads it, too: a result that is changed in place before the backward is an error there.
  if (value.forward_output && read_late_[value.root] && !copied) return kUnit * (bytes(v) / 16 + kOverhead);
  const int64_t times = in_memory_[value.root] && !copied ? 1 : 2;
  return kUnit * (times * bytes(v) + kOverhead);
}

int64_t Prices::recompute(int32_t n) const {
  const NodeFacts& node = facts_.nodes[n];
  if (node.op_class == OpClass::Free || !node.required) return 0;
  int64_t out = 0, in = 0, written_out = 0;
  for (size_t i = 0; i < node.node->outputs.size(); ++i) {
    const int32_t output = node.first_output + static_cast<int32_t>(i);
    out += bytes(output);
    if (read_by_library_[facts_.values[output].root]) written_out += bytes(output);
  }
  for (int32_t input : facts_.inputs(node)) in += bytes(input);
  const int64_t work = node.op_class == OpClass::Cheap ? kUnit * (out / 8 + kOverhead) + kUnit / 2 * written_out
                                                       : kUnit * (out + in + kOverhead);
  return work + work / 8 * std::min(distance_[n], kMostDistance);
}

}  // namespace firesteel
