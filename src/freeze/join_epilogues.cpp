// What comes right after a packed layer, and changes each number by itself, is done by oneDNN while the numbers are in
// the cache.
#include "freeze/rewriter.h"

namespace firesteel {
namespace {

using Scalars = c10::List<std::optional<at::Scalar>>;

// oneDNN's name of an activation, its numbers and its variant.
struct Activation {
  const char* name;
  Scalars scalars;
  std::string variant;
};

// Not relu and hardtanh, which make a plain number of NaN there.
std::optional<Activation> activation_of(const Node& node) {
  // clang-format off
  static const std::unordered_map<std::string_view, const char*> plain = {
      {"aten::sigmoid", "sigmoid"}, {"aten::tanh", "tanh"}, {"aten::silu", "swish"},
      {"aten::hardswish", "hardswish"}};
  // clang-format on
  if (auto found = plain.find(node.op.aten->operator_name().name); found != plain.end())
    return Activation{found->second, Scalars(), ""};
  if (op_is(node, "aten::gelu") && node.args[1].constant.isString())
    return Activation{"gelu", Scalars(), node.args[1].constant.toStringRef()};
  if (op_is(node, "aten::leaky_relu") && node.args[1].kind == Arg::Kind::Const && node.args[1].constant.isScalar()) {
    Activation made{"leaky_relu", Scalars(), ""};
    made.scalars.push_back(node.args[1].constant.toScalar());
    return made;
  }
  return {};
}

bool is_none(const Arg& arg) {
  return arg.kind == Arg::Kind::None || (arg.constant.isString() && arg.constant.toStringRef() == "none");
}

// The first of the three arguments that say which activation comes after; 0 where none can: after a sum oneDNN knows
// relu alone.
size_t activation_place(const Node& node) {
  const std::string& overload = node.op.aten->operator_name().overload_name;
  if (op_is(node, "mkldnn::_linear_pointwise")) return overload.empty() ? 3 : 0;
  if (op_is(node, "mkldnn::_convolution_pointwise")) return overload.empty() ? 7 : 0;
  return 0;
}

class Joiner {
 public:
  explicit Joiner(Graph& graph) : rewriter_(graph) {}

  bool run() {
    return rewriter_.run([&](Node& node) -> Value* {
      if (op_is(node, "aten::add")) return join_sum(node);
      const std::optional<Activation> activation = activation_of(node);
      return activation ? join_activation(node, *activation) : nullptr;
    });
  }

 private:
  // A layer that has no activation yet and that nothing else reads, perhaps through a view.
  Node* layer_before(const Arg& arg) const {
    if (arg.kind != Arg::Kind::Value || !arg.value->def || readers(arg.value) > 1) return nullptr;
    Node* node = arg.value->def;
    if (!node->op.is_aten()) return nullptr;
    if (op_is(*node, "aten::view") || op_is(*node, "aten::_unsafe_view")) return layer_before(node->args[0]);
    const size_t place = activation_place(*node);
    return place && is_none(node->args[place]) ? node : nullptr;
  }

  Value* join_activation(Node& node, const Activation& activation) {
    Node* layer = layer_before(node.args[0]);
    Value* input = node.args[0].value;
    if (!layer || !(input->type == node.outputs[0]->type)) return nullptr;
    const size_t place = activation_place(*layer);
    layer->args[place] = Arg::of_const(activation.name);
    layer->args[place + 1] = Arg::of_const(activation.scalars);
    layer->args[place + 2] = Arg::of_const(activation.variant);
    take_over(node, input);
    return input;
  }

  // self (0), other (1), alpha (2): one of them from a convolution.
  Value* join_sum(Node& node) {
    if (node.args.size() != 3 || node.args[2].kind != Arg::Kind::Const || !node.args[2].constant.isScalar() ||
        !node.args[2].constant.toScalar().equal(1) || !is_float_tensor(node.args[0], 4) ||
        !is_float_tensor(node.args[1], 4) || node.args[0].value == node.args[1].value)
      return nullptr;
    if (!(node.args[0].value->type.sizes == node.args[1].value->type.sizes)) return nullptr;
    for (size_t side : {1, 0}) {
      Node* layer = layer_before(node.args[side]);
      if (!layer || layer->outputs[0].get() != node.args[side].value ||
          !op_is(*layer, "mkldnn::_convolution_pointwise") || activation_place(*layer) != 7)
        continue;
      std::vector<Arg> args = {layer->args[0], node.args[1 - side]};
      for (size_t i = 1; i < 7; ++i) args.push_back(layer->args[i]);
      for (Arg arg : {Arg::of_const("add"), Arg::of_const(1.0), Arg(), Arg::of_const(Scalars()), Arg()})
        args.push_back(std::move(arg));
      Value* sum =
          rewriter_.add(node, "mkldnn::_convolution_pointwise", "binary", std::move(args), node.outputs[0]->type);
      take_over(node, sum);
      return sum;
    }
    return nullptr;
  }

  // Values that stand for others have the readers of those.
  void take_over(const Node& node, const Value* value) { readers_[value] = readers(node.outputs[0].get()); }
  size_t readers(const Value* value) const {
    auto found = readers_.find(value);
    return found == readers_.end() ? rewriter_.uses(value) : found->second;
  }

  Rewriter rewriter_;
  std::unordered_map<const Value*, size_t> readers_;
};

}  // namespace

bool join_epilogues(Graph& graph) { return Joiner(graph).run(); }

}  // namespace firesteel
