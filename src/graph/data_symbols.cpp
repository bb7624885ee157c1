// Finds the symbols that a graph computes, and the nodes that do.
#include "graph/data_symbols.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace firesteel {
namespace {

constexpr auto kReaders = std::to_array<std::string_view>({
    "aten::_local_scalar_dense",
    "aten::_unique2",
    "aten::index",
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave",
    "aten::unique_consecutive",
    "aten::unique_dim",
});

bool any_data(const std::vector<Dim>& dims) { return std::any_of(dims.begin(), dims.end(), mentions_data); }
bool any_data(const Type& type) { return any_data(type.sizes) || any_data(type.strides); }

bool reads_data(const Node& node) {
  if (!node.op.is_aten()) return false;
  const std::string& name = node.op.aten->operator_name().name;
  // Of the user's: it may tell of sizes of its own.
  if (!name.starts_with("aten::") && !name.starts_with("firesteel::") && !name.starts_with("prims::"))
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [](const auto& output) { return any_data(output->type); });
  if (std::find(kReaders.begin(), kReaders.end(), name) == kReaders.end()) return false;
  if (name != "aten::index") return true;
  bool has_mask = false;
  node.args[1].each_value([&](const Value* index) { has_mask = has_mask || index->type.dtype == c10::kBool; });
  return has_mask;
}

bool any_data(const Arg& arg) {
  return (arg.kind == Arg::Kind::Dim && mentions_data(arg.dim)) ||
         std::any_of(arg.items.begin(), arg.items.end(), [](const Arg& item) { return any_data(item); });
}

}  // namespace

bool is_data_symbol(const Dim& dim) {
  return !dim.is_number() && dim.expr()->op == DimOp::Symbol && dim.expr()->name.starts_with('u');
}

bool mentions_data(const Dim& dim) {
  if (dim.is_number()) return false;
  if (dim.expr()->op == DimOp::Symbol) return is_data_symbol(dim);
  return mentions_data(dim.expr()->lhs) || mentions_data(dim.expr()->rhs);
}

bool has_data_symbols(const Graph& graph) {
  auto of_node = [](const auto& node) {
    return std::any_of(node->args.begin(), node->args.end(), [](const Arg& arg) { return any_data(arg); }) ||
           std::any_of(node->outputs.begin(), node->outputs.end(),
                       [](const auto& output) { return any_data(output->type); });
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), of_node) ||
         std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [](const Input& input) { return any_data(input.value->type); });
}

std::vector<DataSymbol> data_symbols_of(const Node& node) {
  std::vector<DataSymbol> found;
  if (!reads_data(node)) return found;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Type& type = node.outputs[i]->type;
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (!is_data_symbol(type.sizes[d])) continue;
      const size_t symbol = symbol_number(type.sizes[d].expr()->name);
      const bool known = std::any_of(found.begin(), found.end(), [&](auto& other) { return other.symbol == symbol; });
      if (!known) found.push_back({symbol, i, type.is_tensor() ? static_cast<int32_t>(d) : -1});
    }
  }
  return found;
}

size_t symbol_number(std::string_view name) {
  size_t number = SIZE_MAX;
  if (name.size() > 1) std::from_chars(name.data() + 1, name.data() + name.size(), number);
  FS_CHECK(number != SIZE_MAX, "`{}` is no symbol of a trace", name);
  return number;
}

Type data_number_type(const Dim& symbol) {
  Type type = Type::scalar(ValueKind::Int);
  type.sizes = {symbol};
  return type;
}

}  // namespace firesteel
