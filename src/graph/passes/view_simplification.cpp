// View simplification: each node first skips the views before it, then is dropped where it changes nothing.
#include "graph/passes/view_simplification.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <ATen/TensorUtils.h>

#include "graph/passes/memory_relations.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

using Permutation = std::vector<int64_t>;

bool is_op(const Node& node, std::string_view name, std::string_view overload) {
  return is_aten_op(node, name) && node.op.aten->operator_name().overload_name == overload;
}

Value* first_input(const Node& node) {
  return !node.args.empty() && node.args[0].kind == Arg::Kind::Value ? node.args[0].value : nullptr;
}

std::optional<std::vector<int64_t>> numbers(const std::vector<Dim>& dims) {
  std::vector<int64_t> result;
  for (const Dim& dim : dims) {
    if (!dim.is_number()) return std::nullopt;
    result.push_back(dim.number());
  }
  return result;
}

std::optional<int64_t> dim_arg(const Arg& arg, int64_t rank) {
  if (arg.kind != Arg::Kind::Const || !arg.constant.isInt()) return std::nullopt;
  int64_t dim = arg.constant.toInt();
  if (dim < -rank || dim >= rank) return std::nullopt;
  return dim < 0 ? dim + rank : dim;
}

// The order in which a node lists the dimensions of its input, where that is all it does.
std::optional<Permutation> permutation_of(const Node& node) {
  const Value* input = first_input(node);
  if (!input || !input->type.is_tensor()) return std::nullopt;
  auto rank = static_cast<int64_t>(input->type.sizes.size());
  Permutation order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (is_op(node, "t", "") && rank <= 2) {
    std::reverse(order.begin(), order.end());
    return order;
  }
  if (is_op(node, "transpose", "int")) {
    auto a = dim_arg(node.args[1], rank), b = dim_arg(node.args[2], rank);
    if (!a || !b) return std::nullopt;
    std::swap(order[*a], order[*b]);
    return order;
  }
  if (!is_op(node, "permute", "") || node.args[1].kind != Arg::Kind::Const || !node.args[1].constant.isIntList())
    return std::nullopt;
  auto dims = node.args[1].constant.toIntVector();
  if (static_cast<int64_t>(dims.size()) != rank) return std::nullopt;
  for (int64_t i = 0; i < rank; i++) {
    order[i] = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (order[i] < 0 || order[i] >= rank) return std::nullopt;
  }
  return order;
}

// permute(permute(x)) is one permute of x.
bool skip_permutation(Node& node) {
  const Node* inner = first_input(node)->def;
  auto outer_order = permutation_of(node);
  auto inner_order = outer_order && inner ? permutation_of(*inner) : std::nullopt;
  if (!inner_order || inner_order->size() != outer_order->size()) return false;
  c10::List<int64_t> joined;
  for (int64_t dim : *outer_order) joined.push_back((*inner_order)[dim]);
  static const auto permute = c10::Dispatcher::singleton().findSchemaOrThrow("aten::permute", "");
  node.op.aten.emplace(permute);
  node.args = {first_input(*inner), Arg::of_const(std::move(joined))};
  return true;
}

// Views that keep the elements in their row-major order.
bool keeps_order(const Node& node) {
  return is_op(node, "view", "") || is_op(node, "_unsafe_view", "") || is_aten_op(node, "squeeze") ||
         is_aten_op(node, "unsqueeze") || is_aten_op(node, "alias") || is_aten_op(node, "detach");
}

// view(view(x)) is one view of x, where x's strides allow that view and give the same strides.
bool skip_reshape(Node& node) {
  if (!is_op(node, "view", "") && !is_op(node, "_unsafe_view", "")) return false;
  const Node* inner = first_input(node)->def;
  if (!inner || !keeps_order(*inner) || !first_input(*inner)) return false;
  const Type& from = first_input(*inner)->type;
  const Type& to = node.outputs[0]->type;
  if (from.requires_grad != first_input(node)->type.requires_grad) return false;
  auto sizes = numbers(from.sizes), strides = numbers(from.strides);
  auto new_sizes = numbers(to.sizes), new_strides = numbers(to.strides);
  bool direct = from.is_contiguous() && to.strides == contiguous_strides(to.sizes);
  if (sizes && strides && new_sizes && new_strides)
    direct = at::detail::computeStride(*sizes, *strides, *new_sizes) == new_strides;
  if (!direct) return false;
  node.args[0] = first_input(*inner);
  return true;
}

// expand(expand(x)) is one expand of x to the last sizes.
bool skip_expand(Node& node) {
  const Node* inner = first_input(node)->def;
  if (!is_op(node, "expand", "") || !inner || !is_op(*inner, "expand", "") || !first_input(*inner)) return false;
  auto sizes = numbers(node.outputs[0]->type.sizes);
  if (!sizes) return false;
  node.args[0] = first_input(*inner);
  node.args[1] = Arg::of_const(c10::List<int64_t>(c10::ArrayRef<int64_t>(*sizes)));
  return true;
}

bool is_absent_or_false(const Arg* arg) {
  return !arg || arg->kind == Arg::Kind::None ||
         (arg->kind == Arg::Kind::Const && arg->constant.isBool() && !arg->constant.toBool());
}

bool is_absent_or_strided(const Arg* arg) {
  return !arg || arg->kind == Arg::Kind::None ||
         (arg->kind == Arg::Kind::Const && arg->constant.isInt() &&
          arg->constant.toInt() == static_cast<int64_t>(c10::Layout::Strided));
}

// Whether equal types of input and output mean equal elements: true of views that keep the storage offset, and of
// copies.
bool is_identity_for_equal_types(const Node& node) {
  static constexpr auto kNames = std::to_array<std::string_view>({
      "_unsafe_view",
      "alias",
      "clone",
      "contiguous",
      "detach",
      "expand",
      "expand_as",
      "flatten",
      "lift_fresh",
      "lift_fresh_copy",
      "permute",
      "ravel",
      "reshape",
      "squeeze",
      "t",
      "transpose",
      "view",
      "view_as",
  });
  if (is_aten_op(node, "_to_copy") || is_aten_op(node, "to"))
    return is_absent_or_false(find_arg(node, "pin_memory")) && is_absent_or_strided(find_arg(node, "layout"));
  if (is_op(node, "slice", "Tensor")) {
    // With as many elements as before a slice takes them all; an empty one may have moved its offset.
    const auto& sizes = node.outputs[0]->type.sizes;
    return std::none_of(sizes.begin(), sizes.end(),
                        [](const Dim& size) { return size == Dim(0) || !size.is_number(); });
  }
  if (is_op(node, "view", "dtype")) return true;
  std::string_view name = node.op.aten->operator_name().name;
  return name.starts_with("aten::") && std::find(kNames.begin(), kNames.end(), name.substr(6)) != kNames.end();
}

}  // namespace

bool view_simplification(Graph& graph) {
  if (!is_functional(graph)) return false;
  MemoryRelations memory(graph);
  Replacements replacements;
  bool changed = false;
  for (auto& node : graph.nodes) {
    replacements.apply(*node);
    if (!is_pure(*node) || !first_input(*node) || node->outputs.size() != 1) continue;
    Value* output = node->outputs[0].get();
    if (!output->type.is_tensor()) continue;
    while (skip_permutation(*node) || skip_reshape(*node) || skip_expand(*node)) changed = true;
    Value* input = first_input(*node);
    if (!(output->type == input->type) || !is_identity_for_equal_types(*node)) continue;
    if (!memory.may_replace(output, input)) continue;
    memory.replaced(output, input);
    replacements.add(output, input);
    changed = true;
  }
  replacements.apply_to_results(graph);
  return changed;
}

}  // namespace firesteel
