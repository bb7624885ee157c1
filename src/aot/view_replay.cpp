// View chains: found in the graph once, run on real tensors in every call.
#include "aot/view_replay.h"

#include <algorithm>

#include "shapes/open_sizes.h"

namespace firesteel {
namespace {

bool has_one_tensor(const Node& node) {
  size_t values = 0;
  node.each_input([&](const Value*) { ++values; });
  return values == 1;
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
    if (!has_one_tensor(*node)) return;
    steps_.push_back({*node->op.aten, node->args, value->index, node->returns.at(0).list_count >= 0});
    value = node->args[0].value;
  }
  std::reverse(steps_.begin(), steps_.end());
  base_ = found - bases.begin();
  complete_ = true;
}

at::Tensor ViewReplay::replay(const at::Tensor& base, const at::Tensor& computed,
                              std::span<const int64_t> symbols) const {
  if (!complete_) return base.as_strided(computed.sizes(), computed.strides(), computed.storage_offset());
  at::Tensor tensor = base;
  for (const Step& step : steps_) {
    torch::jit::Stack stack{tensor};
    for (size_t i = 1; i < step.args.size(); ++i) stack.push_back(constant_of(step.args[i], symbols));
    step.op.callBoxed(stack);
    tensor = step.returns_list ? stack[0].toTensorVector().at(step.output) : stack.at(step.output).toTensor();
  }
  return tensor;
}

}  // namespace firesteel
