// How values, arguments and nodes are written, for the printer and for messages about a graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph.h"

namespace firesteel {

// One unique name a value: its wish, or one made from its operator (`mm`, `mm_1`); the same for the same graph.
class FIRESTEEL_API ValueNames {
 public:
  explicit ValueNames(const Graph& graph);
  // `%mm`, or `%?` for a value that is not of this graph.
  std::string operator()(const Value* value) const;

 private:
  void add(const Value& value, const std::string& invented);

  std::unordered_map<const Value*, std::string> names_;
  std::unordered_map<std::string, size_t> counts_;
  std::unordered_set<std::string> taken_;
};

void append_arg(std::string& out, const Arg& arg, const ValueNames& names, const c10::Type* slot);

// `%mm: f32[8, 16] = aten.mm(%x, %w)`
FIRESTEEL_API std::string node_text(const Node& node, const ValueNames& names);

// The operator that `aten.add.Tensor` names.
std::optional<c10::OperatorHandle> find_operator(std::string_view text);

}  // namespace firesteel
