// The groups of size rules, one a file, and what they share.
#pragma once

#include "aot/size_rules.h"

namespace firesteel {

c10::ArrayRef<SizeRuleEntry> view_sizes();
c10::ArrayRef<SizeRuleEntry> reduction_sizes();
c10::ArrayRef<SizeRuleEntry> linear_sizes();
c10::ArrayRef<SizeRuleEntry> indexing_sizes();
c10::ArrayRef<SizeRuleEntry> factory_sizes();
c10::ArrayRef<SizeRuleEntry> layer_sizes();
c10::ArrayRef<SizeRuleEntry> window_sizes();

// All tensors among the arguments, broadcast together: for every elementwise operator.
bool broadcast_sizes(SizeCall& call);
// What two shapes broadcast to; nothing where they do not.
std::optional<std::vector<Dim>> broadcast(SizeCall& call, std::vector<Dim> a, const std::vector<Dim>& b);

// Every result has the sizes of this argument.
template <size_t index>
bool like(SizeCall& call) {
  if (!call.has_tensor(index)) return false;
  for (size_t i = 0; i < call.results.size(); ++i) call.give(call.sizes(index));
  return true;
}

// One result, of the sizes that are this argument.
template <size_t index>
bool of_given_sizes(SizeCall& call) {
  call.give(call.dims(index));
  return true;
}

}  // namespace firesteel
