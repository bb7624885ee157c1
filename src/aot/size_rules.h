// Size rules: the sizes of an operator's results as expressions of its arguments' sizes.
//
// The shapes of the traced call are found as for any other call; a rule says how they follow from the sizes that are
// symbols. Where there is no rule, or it does not know this call, the symbols among the arguments are settled, and the
// graph holds for the traced sizes alone: less is served, nothing is wrong.
#pragma once

#include <string_view>

#include "aot/fake_tensor.h"
#include "aot/op_plan.h"
#include "aot/symbols.h"

namespace firesteel {

// One call: its arguments as they were given, and the results of the traced call.
struct SizeCall {
  c10::ArrayRef<c10::IValue> args;
  const std::vector<at::Tensor>& results;  // meta tensors, flat
  Symbols& symbols;
  std::vector<SymbolicLayout> layouts;  // to be filled, one a result; without strides: those of a new tensor

  bool has_tensor(size_t i) const { return args[i].isTensor() && args[i].toTensor().defined(); }
  SymbolicLayout layout(size_t i) const { return layout_of(args[i].toTensor()); }
  std::vector<Dim> sizes(size_t i) const { return layout(i).sizes; }
  int64_t rank(size_t i) const { return args[i].toTensor().dim(); }
  Dim dim(size_t i) const;                // an int argument
  std::vector<Dim> dims(size_t i) const;  // a list of ints
  int64_t axis(size_t i, int64_t rank) const;

  bool decide(const Relation& relation) const { return symbols.decide(relation); }
  bool equal(const Dim& a, const Dim& b) const { return a == b || decide(Relation::eq(a, b)); }
  Dim simple(const Dim& dim) const { return symbols.simplify(dim); }

  void give(std::vector<Dim> sizes) { layouts.push_back({std::move(sizes), {}, 0}); }
  void give_view(SymbolicLayout view) { layouts.push_back(std::move(view)); }
};

// False: the rule does not know this call.
using SizeRule = bool (*)(SizeCall&);

struct SizeRuleEntry {
  std::string_view op;  // "aten::mm", "aten::where.self"
  SizeRule rule;
};

// True where an argument has symbols in its sizes, or is one.
bool has_symbols(c10::ArrayRef<c10::IValue> args);
// The arguments with the traced call's numbers in place of symbols.
void put_hints(std::vector<c10::IValue>& args);
// The layouts of the results, one a tensor, flat. Where no rule knows them, the symbols of the arguments are settled.
std::vector<SymbolicLayout> symbolic_results(const OpPlan& plan, c10::ArrayRef<c10::IValue> args,
                                             const std::vector<c10::IValue>& results, Symbols& symbols);

// How often an operator settled its arguments' symbols because no rule knew it: for tests, and to know what is missing.
FIRESTEEL_API std::map<std::string, uint64_t> settled_operators();

}  // namespace firesteel
