// The groups of shape rules, one file a family of operators.
#pragma once

#include "aot/shape_rules.h"

namespace firesteel {

#define FIRESTEEL_RULE_GROUPS(X) \
  X(attention)                   \
  X(convolution) X(factory) X(indexing) X(linear_algebra) X(normalization) X(pointwise) X(pooling) X(spectral)

#define X(group) c10::ArrayRef<ShapeRuleEntry> group##_rules();
FIRESTEEL_RULE_GROUPS(X)
#undef X

inline std::vector<c10::ArrayRef<ShapeRuleEntry>> rule_groups() {
#define X(group) group##_rules(),
  return {FIRESTEEL_RULE_GROUPS(X)};
#undef X
}

}  // namespace firesteel
