// Operators with an index space of their own: over which dimensions they reduce, and what they compute of a row.
#pragma once

#include <string_view>
#include <unordered_map>

#include "fuse/node_builder.h"
#include "fuse/node_rules.h"

namespace firesteel {

// The results of a node; none where eager's could not be matched.
using RowResults = std::optional<std::vector<ExprId>>;

struct RowRule {
  size_t over;  // the argument whose points it computes
  // The dimensions of that argument which it reduces. None where the arguments are not plain.
  std::optional<std::vector<bool>> (*dims)(const Node& node, size_t rank);
  RowResults (*lower)(NodeBuilder& builder, const Dim& row_length);
  // Arguments that do not lie along the last dimensions of the space, and where they begin: (argument, dimension).
  std::vector<std::pair<size_t, size_t>> aligned = {};
  Walk walk = Walk::Any;
};

using RowRules = std::unordered_map<std::string_view, RowRule>;
const RowRules& reduction_rules();  // sum, mean, amax, var, …
const RowRules& norm_rules();       // softmax, layer norm, and their gradients
const RowRules& channel_rules();    // batch norm; losses
const RowRules& running_rules();    // cumsum, cumprod

// The argument `dim`: one, several, or all where there is none.
std::optional<std::vector<bool>> dims_by_name(const Node& node, size_t rank);
std::optional<std::vector<bool>> no_dims(const Node& node, size_t rank);
std::optional<std::vector<bool>> all_dims(const Node& node, size_t rank);

}  // namespace firesteel
