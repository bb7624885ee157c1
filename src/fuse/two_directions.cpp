// Splits by output mask.
#include "fuse/two_directions.h"

#include "graph/passes/purity.h"

namespace firesteel {
namespace {

constexpr std::string_view kMask = "output_mask";

bool is_two(const Node& node) {
  if (!is_aten_op(node, "native_layer_norm_backward")) return false;
  const Arg* mask = find_arg(node, kMask);
  if (!mask || mask->kind != Arg::Kind::Const || !mask->constant.isBoolList()) return false;
  const c10::List<bool> wanted = mask->constant.toBoolList();
  return wanted.get(0) && (wanted.get(1) || wanted.get(2));
}

void set_mask(Node& node, bool input, bool weight, bool bias) {
  const_cast<Arg*>(find_arg(node, kMask))->constant = c10::List<bool>({input, weight, bias});
}

// The node keeps the input's gradient; the copy takes the others.
std::unique_ptr<Node> split(Node& node) {
  const c10::List<bool> mask = find_arg(node, kMask)->constant.toBoolList();
  const bool weight = mask.get(1), bias = mask.get(2);
  auto rest = std::make_unique<Node>();
  rest->op = node.op;
  rest->args = node.args;
  rest->returns = node.returns;
  rest->source = node.source;
  rest->phase = node.phase;
  set_mask(node, true, false, false);
  set_mask(*rest, false, weight, bias);
  rest->add_output(Type::none());
  for (size_t i = 1; i < 3; ++i) {
    node.outputs[i]->def = rest.get();
    rest->outputs.push_back(std::move(node.outputs[i]));
  }
  node.outputs.resize(1);
  node.add_output(Type::none());
  node.add_output(Type::none());
  return rest;
}

}  // namespace

void split_directions(Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_two(*graph.nodes[i])) continue;
    graph.nodes.insert(graph.nodes.begin() + static_cast<int64_t>(i) + 1, split(*graph.nodes[i]));
    ++i;
  }
}

}  // namespace firesteel
