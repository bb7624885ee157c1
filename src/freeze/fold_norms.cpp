// A batch norm by running statistics scales and shifts each channel: so does the convolution before it, with other
// weights.
#include "freeze/rewriter.h"

namespace firesteel {
namespace {

struct Norm {
  Arg weight, bias, mean, variance, epsilon;
};

// input (0), weight (1), bias (2), mean (3), variance (4), then training or not, momentum, epsilon.
std::optional<Norm> norm_of(const Node& node, const ConstantValues& constants) {
  const bool plain = op_is(node, "aten::native_batch_norm");
  if (!plain && !op_is(node, "aten::_native_batch_norm_legit_no_training")) return {};
  if (plain && node.args[5].constant.toBool()) return {};
  for (size_t i = 1; i <= 4; ++i) {
    const bool optional = i <= 2 && node.args[i].kind == Arg::Kind::None;
    if (!optional && (!is_float_tensor(node.args[i], 1) || !constants.count(node.args[i].value))) return {};
  }
  return Norm{node.args[1], node.args[2], node.args[3], node.args[4], node.args[plain ? 7 : 6]};
}

// A convolution that nothing else reads, whose weights (1) and bias (2) are constant; not a transposed one (6).
Node* folding_convolution(const Rewriter& rewriter, const Arg& input, const ConstantValues& constants) {
  Node* node = rewriter.sole_maker(input, "aten::convolution");
  if (!node || !is_float_tensor(input, 4) || !is_float_tensor(node->args[1], 4) || node->args[6].constant.toBool())
    return nullptr;
  const bool has_bias = node->args[2].kind == Arg::Kind::Value;
  if (!constants.count(node->args[1].value) || (has_bias && !constants.count(node->args[2].value))) return nullptr;
  return node;
}

}  // namespace

bool fold_norms(Graph& graph) {
  const ConstantValues constants = constant_values(graph);
  Rewriter rewriter(graph);
  return rewriter.run([&](Node& node) -> Value* {
    const std::optional<Norm> norm = norm_of(node, constants);
    Node* convolution = norm ? folding_convolution(rewriter, node.args[0], constants) : nullptr;
    if (!convolution) return nullptr;
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      if (rewriter.uses(node.outputs[i].get())) return nullptr;
    }
    Value* weight = convolution->args[1].value;
    const Type channels = norm->mean.value->type;
    auto on_channels = [&](const char* op, const char* overload, std::vector<Arg> args) {
      return rewriter.add(node, op, overload, std::move(args), channels);
    };
    const Arg one = Arg::of_const(static_cast<int64_t>(1));
    Value* scale = on_channels("aten::add", "Tensor", {norm->variance, norm->epsilon, one});
    scale = on_channels("aten::rsqrt", "", {scale});
    if (norm->weight.kind == Arg::Kind::Value) scale = on_channels("aten::mul", "Tensor", {scale, norm->weight});
    Value* shift = on_channels("aten::mul", "Tensor", {norm->mean, scale});
    shift = norm->bias.kind == Arg::Kind::Value ? on_channels("aten::sub", "Tensor", {norm->bias, shift, one})
                                                : on_channels("aten::neg", "", {shift});
    if (convolution->args[2].kind == Arg::Kind::Value) {
      Value* moved = on_channels("aten::mul", "Tensor", {convolution->args[2], scale});
      shift = on_channels("aten::add", "Tensor", {shift, moved, one});
    }
    const Dim count = weight->type.sizes[0];
    const std::vector<int64_t> shape = {count.number(), 1, 1, 1};
    Value* factors = rewriter.add(node, "aten::view", "", {scale, Arg::of_const(shape)},
                                  tensor_like(channels, {count, Dim(1), Dim(1), Dim(1)}));
    Value* scaled =
        rewriter.add(node, "aten::mul", "Tensor", {weight, factors}, tensor_like(weight->type, weight->type.sizes));
    std::vector<Arg> args = convolution->args;
    args[1] = scaled;
    args[2] = shift;
    return rewriter.add(node, "aten::convolution", "", std::move(args), node.outputs[0]->type);
  });
}

}  // namespace firesteel
