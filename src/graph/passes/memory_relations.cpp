// Memory relations, from the alias annotations of schemas and a list of what they leave out.
#include "graph/passes/memory_relations.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"

namespace firesteel {
namespace {

// Views that always share their first argument's memory. Others (`reshape`, `contiguous`, `to`) may copy.
constexpr auto kSureViews = std::to_array<std::string_view>({
    "_conj",   "_neg_view", "_reshape_alias",   "_unsafe_view", "alias",     "as_strided",
    "chunk",   "detach",    "diagonal",         "expand",       "expand_as", "lift_fresh",
    "mT",      "movedim",   "narrow",           "numpy_T",      "permute",   "select",
    "slice",   "split",     "split_with_sizes", "squeeze",      "swapaxes",  "swapdims",
    "t",       "transpose", "unbind",           "unfold",       "unsqueeze", "view",
    "view_as",
});

bool is_sure_view(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  if (!name.starts_with("aten::")) return false;
  return std::find(kSureViews.begin(), kSureViews.end(), name.substr(6)) != kSureViews.end();
}

// A composite without annotations may still hand back a view (`broadcast_tensors`, `einsum`, `dropout` when
// evaluating).
bool may_hide_views(const c10::OperatorHandle& op) {
  return op_facts(op).is_view || op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// The alias sets of an argument or return; those of a list stand on its elements.
void collect_sets(const c10::AliasInfo& alias, std::unordered_set<c10::Symbol>& sets) {
  sets.insert(alias.beforeSets().begin(), alias.beforeSets().end());
  for (const c10::AliasInfo& contained : alias.containedTypes()) collect_sets(contained, sets);
}

bool share_a_set(const c10::Argument& a, const c10::Argument& b) {
  if (!a.alias_info() || !b.alias_info()) return false;
  std::unordered_set<c10::Symbol> sets_of_a, sets_of_b;
  collect_sets(*a.alias_info(), sets_of_a);
  collect_sets(*b.alias_info(), sets_of_b);
  return std::any_of(sets_of_a.begin(), sets_of_a.end(),
                     [&](const c10::Symbol& set) { return sets_of_b.count(set) > 0; });
}

// The arguments whose memory a return may share; where the annotation matches none, all of them.
std::vector<size_t> aliased_arguments(const c10::FunctionSchema& schema, const c10::Argument& result, bool hidden) {
  std::vector<size_t> all(schema.arguments().size()), matched;
  std::iota(all.begin(), all.end(), 0);
  if (!result.alias_info()) return hidden ? all : matched;
  for (size_t i : all) {
    if (share_a_set(result, schema.arguments()[i])) matched.push_back(i);
  }
  return matched.empty() ? all : matched;
}

}  // namespace

size_t MemoryRelations::Partition::root(size_t index) const {
  while (parent[index] != index) index = parent[index];
  return index;
}

MemoryRelations::MemoryRelations(const Graph& graph) {
  auto add = [&](const Value* value) {
    size_t index = indices_.size();
    indices_.emplace(value, index);
    may_.parent.push_back(index);
    must_.parent.push_back(index);
    groups_.emplace_back();
  };
  for (const Input& input : graph.inputs) {
    add(input.value.get());
    groups_.back().has_input = true;
    inputs_.insert(input.value.get());
  }
  for (const auto& node : graph.nodes) {
    for (const auto& output : node->outputs) add(output.get());
    add_node(*node);
  }
  for (const Arg& output : graph.outputs) {
    output.each_value([&](const Value* value) {
      outputs_.insert(value);
      groups_[may_.root(index(value))].outputs++;
    });
  }
  for (const Mutation& mutation : graph.mutations) {
    updates_.insert(mutation.updated);
    groups_[may_.root(index(mutation.updated))].updates++;
  }
}

void MemoryRelations::add_node(const Node& node) {
  if (!node.op.is_aten()) {
    for (const auto& output : node.outputs)
      node.each_input([&](const Value* input) { join(output.get(), input, false); });
    return;
  }
  const c10::FunctionSchema& schema = node.op.aten->schema();
  bool sure = is_sure_view(schema);
  bool hidden = may_hide_views(*node.op.aten);
  size_t next = 0;
  for (size_t r = 0; r < node.returns.size(); r++) {
    const c10::Argument& result = schema.returns()[r];
    size_t count = node.returns[r].list_count < 0 ? 1 : node.returns[r].list_count;
    for (size_t i : aliased_arguments(schema, result, hidden)) {
      for (size_t o = next; o < next + count; o++) {
        node.args[i].each_value([&](const Value* input) { join(node.outputs[o].get(), input, sure && i == 0); });
      }
    }
    next += count;
  }
}

void MemoryRelations::join(const Value* a, const Value* b, bool surely) {
  if (!a->type.is_tensor() || !b->type.is_tensor()) return;
  join_may(index(a), index(b));
  if (surely) must_.parent[must_.root(index(a))] = must_.root(index(b));
}

void MemoryRelations::join_may(size_t a, size_t b) {
  a = may_.root(a);
  b = may_.root(b);
  if (a == b) return;
  may_.parent[a] = b;
  groups_[b].outputs += groups_[a].outputs;
  groups_[b].updates += groups_[a].updates;
  groups_[b].has_input |= groups_[a].has_input;
}

size_t MemoryRelations::index(const Value* value) const {
  auto found = indices_.find(value);
  FS_CHECK(found != indices_.end(), "a value is not of the graph whose memory was looked at");
  return found->second;
}

const MemoryRelations::Group& MemoryRelations::group(const Value* value) const {
  return groups_[may_.root(index(value))];
}

bool MemoryRelations::escapes(const Value* value) const { return group(value).escapes(); }

bool MemoryRelations::may_replace(const Value* dropped, const Value* kept) const {
  // Two outputs, or an output and an input, stay two tensors even where they share memory: eager returns two objects.
  if (outputs_.count(dropped) && (inputs_.count(kept) || outputs_.count(kept))) return false;
  if (updates_.count(dropped) && inputs_.count(kept)) return false;
  if (must_.root(index(dropped)) == must_.root(index(kept))) return true;
  const Group& a = group(kept);
  const Group& b = group(dropped);
  if (&a == &b) return a.outputs < 2 && !(a.has_input && a.escapes());
  if ((a.has_input && b.escapes()) || (b.has_input && a.escapes())) return false;
  return !(a.outputs && b.outputs);
}

void MemoryRelations::replaced(const Value* dropped, const Value* kept) {
  join_may(index(dropped), index(kept));
  must_.parent[must_.root(index(dropped))] = must_.root(index(kept));
  if (outputs_.count(dropped)) outputs_.insert(kept);
  if (updates_.count(dropped)) updates_.insert(kept);
}

void Replacements::apply(Node& node) const {
  if (to_.empty()) return;
  node.each_input([&](Value*& value) {
    auto found = to_.find(value);
    if (found != to_.end()) value = found->second;
  });
}

void Replacements::apply_to_results(Graph& graph) const {
  if (to_.empty()) return;
  auto replace = [&](Value*& value) {
    auto found = to_.find(value);
    if (found != to_.end()) value = found->second;
  };
  for (Arg& output : graph.outputs) output.each_value(replace);
  for (Mutation& mutation : graph.mutations) replace(mutation.updated);
}

}  // namespace firesteel
