// The groups of shape rules, one file a family of operators.
#pragma once

#include "aot/shape_rules.h"

namespace firesteel {

c10::ArrayRef<ShapeRuleEntry> normalization_rules();
c10::ArrayRef<ShapeRuleEntry> convolution_rules();
c10::ArrayRef<ShapeRuleEntry> factory_rules();

inline std::vector<c10::ArrayRef<ShapeRuleEntry>> rule_groups() {
  return {normalization_rules(), convolution_rules(), factory_rules()};
}

}  // namespace firesteel
