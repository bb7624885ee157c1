// Products and convolutions whose weights are constant call oneDNN, with the weights in its own layout.
#include "freeze/rewriter.h"

#include "fuse/library_choice.h"

namespace firesteel {
namespace {

// Below it a call of oneDNN costs more by itself than packed weights gain.
constexpr int64_t kSmallestProduct = 2'000'000;

bool is_one(const Arg& arg) {
  return arg.kind == Arg::Kind::Const && arg.constant.isScalar() && arg.constant.toScalar().equal(1);
}

class Packer {
 public:
  explicit Packer(Graph& graph) : constants_(constant_values(graph)), rewriter_(graph) {}

  bool run() {
    return rewriter_.run([&](Node& node) -> Value* {
      if (op_is(node, "aten::convolution")) return pack_convolution(node);
      if (op_is(node, "aten::mm") || op_is(node, "aten::addmm")) return pack_product(node);
      return nullptr;
    });
  }

 private:
  bool is_constant(const Arg& arg) const { return arg.kind == Arg::Kind::Value && constants_.count(arg.value); }
  bool is_bias(const Arg& arg) const {
    return arg.kind == Arg::Kind::None || (is_float_tensor(arg, 1) && is_constant(arg));
  }

  // input (0), weight (1), bias (2), stride (3), padding (4), dilation (5), transposed (6), output padding, groups (8)
  Value* pack_convolution(Node& node) {
    const std::vector<Arg>& args = node.args;
    if (!is_float_tensor(args[0], 4) || !is_float_tensor(args[1], 4) || !is_constant(args[1]) || !is_bias(args[2]) ||
        args[6].constant.toBool() || !is_float_tensor(node.outputs[0].get(), 4) || is_constant(args[0]))
      return nullptr;
    std::vector<int64_t> sizes;
    for (const Dim& size : args[0].value->type.sizes) sizes.push_back(size.number());
    Value* weight = args[1].value;
    Value* packed = rewriter_.add(node, "mkldnn::_reorder_convolution_weight", "",
                                  {weight, args[4], args[3], args[5], args[8], Arg::of_const(sizes)}, weight->type);
    return rewriter_.add(node, "mkldnn::_convolution_pointwise", "",
                         {args[0], packed, args[2], args[4], args[3], args[5], args[8], Arg::of_const("none"),
                          Arg::of_const(c10::List<std::optional<at::Scalar>>()), Arg::of_const("")},
                         node.outputs[0]->type);
  }

  Value* pack_product(Node& node) {
    const bool with_bias = op_is(node, "aten::addmm");
    const size_t first = with_bias ? 1 : 0;
    const Arg &left = node.args[first], &right = node.args[first + 1];
    if (!is_float_tensor(left, 2) || !is_float_tensor(right, 2) || !is_constant(right) || is_constant(left))
      return nullptr;
    if (with_bias && (!is_bias(node.args[0]) || !is_one(node.args[3]) || !is_one(node.args[4]))) return nullptr;
    const std::vector<Dim>&rows = left.value->type.sizes, &columns = right.value->type.sizes;
    if (with_bias && node.args[0].value->type.sizes != std::vector{columns[1]}) return nullptr;
    if (rows[0].number() * rows[1].number() * columns[1].number() < kSmallestProduct) return nullptr;
    Type transposed = tensor_like(right.value->type, {columns[1], columns[0]});
    transposed.strides = {right.value->type.strides[1], right.value->type.strides[0]};
    Value* weight = rewriter_.add(node, "aten::t", "", {right.value}, transposed);
    if (!transposed.is_contiguous()) {
      weight = rewriter_.add(node, "aten::clone", "", {weight, contiguous_format()},
                             tensor_like(transposed, transposed.sizes));
    }
    Value* packed = rewriter_.add(node, "mkldnn::_reorder_linear_weight", "", {weight, Arg::of_const(rows[0].number())},
                                  weight->type);
    return rewriter_.add(node, "mkldnn::_linear_pointwise", "",
                         {left, packed, with_bias ? node.args[0] : Arg(), Arg::of_const("none"),
                          Arg::of_const(c10::List<std::optional<at::Scalar>>()), Arg::of_const("")},
                         node.outputs[0]->type);
  }

  static Arg contiguous_format() { return Arg::of_const(static_cast<int64_t>(at::MemoryFormat::Contiguous)); }

  ConstantValues constants_;
  Rewriter rewriter_;
};

}  // namespace

bool pack_layers(Graph& graph) { return may_use_onednn() && Packer(graph).run(); }

}  // namespace firesteel
