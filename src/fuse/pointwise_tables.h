// The tables of pointwise operators, by name.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>

#include "fuse/node_builder.h"

namespace firesteel {

// None where eager's result could not be matched.
using PointwiseRule = std::optional<ExprId> (*)(NodeBuilder&);
using PointwiseRules = std::unordered_map<std::string_view, PointwiseRule>;

const PointwiseRules& math_rules();  // rounding, signs, bits, further activations

}  // namespace firesteel
