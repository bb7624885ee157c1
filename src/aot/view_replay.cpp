// View chains: found in the graph once, run on real tensors in every call.
#include "aot/view_replay.h"

#include <algorithm>

namespace firesteel {
namespace {

// The constant arguments of a view operator whose only tensor is its first argument.
std::optional<std::vector<c10::IValue>> constant_args(const Node& node) {
  std::vector<c10::IValue> args(node.args.size());
  for (size_t i = 1; i < node.args.size(); ++i) {
    if (node.args[i].kind == Arg::Kind::Const) {
      args[i] = node.args[i].constant;
    } else if (node.args[i].kind != Arg::Kind::None) {
      return std::nullopt;
    }
  }
  return args;
}

}  // namespace

ViewReplay::ViewReplay(const Value* value, const std::vector<const Value*>& bases) {
  auto found = bases.end();
  while ((found = std::find(bases.begin(), bases.end(), value)) == bases.end()) {
    const Node* node = value->def;
    if (!node || !node->op.is_aten() || !op_facts(*node->op.aten).is_view || node->args.empty() ||
        node->args[0].kind != Arg::Kind::Value) {
      return;
    }
    auto args = constant_args(*node);
    if (!args) return;
    steps_.push_back({*node->op.aten, std::move(*args), value->index, node->returns.at(0).list_count >= 0});
    value = node->args[0].value;
  }
  std::reverse(steps_.begin(), steps_.end());
  base_ = found - bases.begin();
  complete_ = true;
}

at::Tensor ViewReplay::replay(const at::Tensor& base, const at::Tensor& computed) const {
  if (!complete_) return base.as_strided(computed.sizes(), computed.strides(), computed.storage_offset());
  at::Tensor tensor = base;
  for (const Step& step : steps_) {
    torch::jit::Stack stack(step.args.begin(), step.args.end());
    stack[0] = tensor;
    step.op.callBoxed(stack);
    tensor = step.returns_list ? stack[0].toTensorVector().at(step.output) : stack.at(step.output).toTensor();
  }
  return tensor;
}

}  // namespace firesteel
