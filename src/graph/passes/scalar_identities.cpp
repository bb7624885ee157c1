// Scalar identities. Strict: x + 0 turns -0.0 into 0.0, so it goes only where x is an integer or the zero is -0.0.
#include "graph/passes/scalar_identities.h"

#include <cmath>
#include <optional>

#include "graph/passes/memory_relations.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

std::optional<double> number(const Arg* arg) {
  if (!arg || arg->kind != Arg::Kind::Const) return std::nullopt;
  if (arg->constant.isDouble()) return arg->constant.toDouble();
  if (arg->constant.isInt()) return static_cast<double>(arg->constant.toInt());
  return std::nullopt;
}

// The number that fills an operand: a plain one, or what a factory filled a tensor with.
std::optional<double> uniform_number(const Arg& arg) {
  if (arg.kind != Arg::Kind::Value) return number(&arg);
  const Node* def = arg.value->def;
  if (!def || !def->op.is_aten()) return std::nullopt;
  if (is_aten_op(*def, "ones")) return 1;
  if (is_aten_op(*def, "zeros")) return 0;
  if (is_aten_op(*def, "full")) return number(find_arg(*def, "fill_value"));
  if (is_aten_op(*def, "scalar_tensor")) return number(find_arg(*def, "s"));
  return std::nullopt;
}

bool is_one(std::optional<double> value) { return value && *value == 1; }
bool is_zero(std::optional<double> value, bool negative) {
  return value && *value == 0 && std::signbit(*value) == negative;
}

// The operand that the node gives back unchanged, if it does; the caller compares the types.
Value* unchanged_operand(const Node& node) {
  auto value = [&](size_t i) { return node.args[i].kind == Arg::Kind::Value ? node.args[i].value : nullptr; };
  auto right = [&] { return uniform_number(node.args[1]); };
  const std::string& overload = node.op.aten->operator_name().overload_name;
  bool pointwise = overload == "Tensor" || overload == "Scalar";
  bool unscaled = is_one(number(find_arg(node, "alpha")));
  const Type& type = node.outputs[0]->type;
  if (pointwise && is_aten_op(node, "mul")) {
    if (value(0) && is_one(right())) return value(0);
    if (value(1) && is_one(uniform_number(node.args[0]))) return value(1);
  } else if ((pointwise && is_aten_op(node, "div")) || (overload == "Tensor_Scalar" && is_aten_op(node, "pow"))) {
    if (is_one(right())) return value(0);
  } else if (pointwise && unscaled && is_aten_op(node, "sub")) {
    if (is_zero(right(), false)) return value(0);
  } else if (pointwise && unscaled && is_aten_op(node, "add")) {
    bool integral = c10::isIntegralType(type.dtype, /*includeBool=*/true);
    if (is_zero(right(), true) || (integral && is_zero(right(), false))) return value(0);
  }
  return nullptr;
}

}  // namespace

bool drop_scalar_identities(Graph& graph) {
  MemoryRelations memory(graph);
  Replacements replacements;
  for (auto& node : graph.nodes) {
    replacements.apply(*node);
    if (!is_pure(*node) || node->outputs.size() != 1 || node->args.size() < 2) continue;
    Value* output = node->outputs[0].get();
    // Complex products mix the parts: inf*(1+0i) is not inf.
    if (!output->type.is_tensor() || c10::isComplexType(output->type.dtype)) continue;
    Value* operand = unchanged_operand(*node);
    if (!operand || !(operand->type == output->type) || !memory.may_replace(output, operand)) continue;
    memory.replaced(output, operand);
    replacements.add(output, operand);
  }
  replacements.apply_to_results(graph);
  return !replacements.empty();
}

}  // namespace firesteel
