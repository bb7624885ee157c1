// Follows what is missing through operators that are linear in it; what they then leave unused is dead code.
#include "partition/missing_tangents.h"

#include <array>
#include <string_view>
#include <unordered_set>

#include "graph/passes/pass.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

// Operators that give nothing where their first argument is nothing. Of ATen's own backward operators see below.
constexpr std::array<std::string_view, 6> kOfFirst = {"neg", "div", "sum", "mean", "clone", "_to_copy"};
// Those that multiply their first two arguments.
constexpr std::array<std::string_view, 3> kProducts = {"mul", "mm", "bmm"};

bool is_one_of(const Node& node, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return is_aten_op(node, name); });
}

class Absence {
 public:
  Absence(Graph& graph, const std::vector<bool>& given) : graph_(graph) {
    size_t tangent = 0;
    for (const Input& input : graph.inputs) {
      if (input.role == InputRole::Tangent && !given.at(tangent++)) missing_.insert(input.value.get());
    }
  }

  void spread() {
    for (const auto& node : graph_.nodes) {
      if (!node->op.is_aten()) continue;
      if (gives_nothing(*node)) {
        for (const auto& output : node->outputs) missing_.insert(output.get());
      } else if (Value* left = what_is_left(*node)) {
        graph_.replace_uses(node->outputs[0].get(), left);
      }
    }
    for (Arg& output : graph_.outputs) {
      if (output.kind == Arg::Kind::Value && is_missing(output)) output = Arg();
    }
  }

 private:
  bool is_missing(const Arg& arg) const { return arg.kind == Arg::Kind::Value && missing_.contains(arg.value); }

  bool gives_nothing(const Node& node) const {
    if (node.args.empty()) return false;
    const bool first = is_missing(node.args[0]);
    if (is_one_of(node, kProducts)) return first || is_missing(node.args[1]);
    if (is_sum(node)) return first && is_missing(node.args[1]);
    return first && (op_facts(*node.op.aten).is_view || is_one_of(node, kOfFirst) || is_backward_of_one(node));
  }

  // Takes one gradient, and is linear in it.
  static bool is_backward_of_one(const Node& node) {
    const c10::FunctionSchema& schema = node.op.aten->schema();
    auto is_gradient = [](const c10::Argument& argument) { return argument.name().starts_with("grad"); };
    return schema.name().starts_with("aten::") && schema.name().find("backward") != std::string::npos &&
           is_gradient(schema.arguments()[0]) &&
           std::count_if(schema.arguments().begin(), schema.arguments().end(), is_gradient) == 1;
  }

  static bool is_sum(const Node& node) {
    return (is_aten_op(node, "add") || is_aten_op(node, "sub")) &&
           node.op.aten->operator_name().overload_name == "Tensor";
  }

  // The one term of a sum that is there, where it is the sum as it stands.
  Value* what_is_left(const Node& node) const {
    if (!is_sum(node) || is_missing(node.args[0]) == is_missing(node.args[1])) return nullptr;
    const bool is_second = is_missing(node.args[0]);
    const Arg& left = node.args[is_second];
    const Arg* alpha = find_arg(node, "alpha");
    const bool scaled = alpha && alpha->kind == Arg::Kind::Const && !alpha->constant.toScalar().equal(1);
    if (left.kind != Arg::Kind::Value || (is_second && (scaled || is_aten_op(node, "sub")))) return nullptr;
    const Type &one = left.value->type, &sum = node.outputs[0]->type;
    const bool alike = one.is_tensor() && one.dtype == sum.dtype && one.sizes == sum.sizes &&
                       one.strides == sum.strides && one.device == sum.device;
    return alike ? left.value : nullptr;
  }

  Graph& graph_;
  std::unordered_set<const Value*> missing_;
};

}  // namespace

Graph without_tangents(const Graph& backward, const std::vector<bool>& given) {
  Graph graph = backward.clone();
  if (!is_functional(graph)) return graph;
  Absence(graph, given).spread();
  run_pass("dead_code", graph);
  return graph;
}

std::vector<bool> read_tangents(const Graph& backward) {
  std::unordered_set<const Value*> read;
  auto mark = [&](const Value* value) { read.insert(value); };
  for (const auto& node : backward.nodes) std::as_const(*node).each_input(mark);
  for (const Arg& output : backward.outputs) output.each_value(mark);
  std::vector<bool> by_tangent;
  for (const Input& input : backward.inputs) {
    if (input.role == InputRole::Tangent) by_tangent.push_back(read.contains(input.value.get()));
  }
  return by_tangent;
}

}  // namespace firesteel
