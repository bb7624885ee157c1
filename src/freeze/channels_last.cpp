// Pictures stay in the order that oneDNN's convolutions take (all channels of a point together) from the first of them
// to where something else needs the recorded order.
#include "freeze/rewriter.h"

#include <c10/core/MemoryFormat.h>

namespace firesteel {
namespace {

bool is_packed_convolution(const Node& node) { return op_is(node, "mkldnn::_convolution_pointwise"); }

// Computes each number of its own place, or of its neighbours in the picture, in whatever order they lie: the result
// has the order of the operands.
bool keeps_order(const Node& node) {
  static const std::unordered_set<std::string_view> names = {
      "aten::relu",    "aten::gelu",       "aten::silu",
      "aten::sigmoid", "aten::tanh",       "aten::hardswish",
      "aten::mul",     "aten::leaky_relu", "aten::native_batch_norm",
      "aten::add",     "aten::sub",        "aten::_native_batch_norm_legit_no_training",
      "aten::cat",     "aten::hardtanh",   "aten::max_pool2d_with_indices",
      "aten::div",     "aten::avg_pool2d", "aten::_adaptive_avg_pool2d"};
  return names.count(node.op.aten->operator_name().name) != 0;
}

// Gives the same layout for either order: means over whole pictures.
bool takes_any_order(const Node& node) {
  if (!op_is(node, "aten::mean") && !op_is(node, "aten::sum")) return false;
  if (node.args.size() < 2 || !node.args[1].constant.isIntList()) return false;
  const std::vector<int64_t> dims = node.args[1].constant.toIntVector();
  return dims.size() == 2 && ((dims[0] + 4) % 4) + ((dims[1] + 4) % 4) == 5 && dims[0] != dims[1] &&
         std::min((dims[0] + 4) % 4, (dims[1] + 4) % 4) == 2;
}

std::vector<Dim> channels_last_strides(const Type& type) {
  const int64_t channels = type.sizes[1].number(), height = type.sizes[2].number(), width = type.sizes[3].number();
  return {Dim(channels * height * width), Dim(1), Dim(channels * width), Dim(channels)};
}

// All of a picture's points at once, or none: the same memory in either order.
bool has_no_order(const Type& type) {
  const size_t rank = type.sizes.size();
  return rank <= 1 || (rank == 4 && type.sizes[2] == Dim(1) && type.sizes[3] == Dim(1));
}

bool has_known_order(const Type& type) { return type.is_contiguous() || type.strides == channels_last_strides(type); }

class Orderer {
 public:
  explicit Orderer(Graph& graph) : graph_(graph), rewriter_(graph) {}

  bool run() {
    const bool changed = rewriter_.run([&](Node& node) -> Value* {
      if (is_packed_convolution(node)) {
        const bool binary = !node.op.aten->operator_name().overload_name.empty();
        for (size_t i = 0; i <= (binary ? 1 : 0); ++i) node.args[i].value = reordered(node, node.args[i].value);
        give_order(node);
      } else if (!takes_any_order(node)) {
        keep_or_put_back(node);
      }
      return nullptr;
    });
    return put_back_results() || changed;
  }

 private:
  void keep_or_put_back(Node& node) {
    bool any = false, all = keeps_order(node);
    node.each_input([&](Value*& value) {
      any = any || last_.count(value);
      all = all && (last_.count(value) || has_no_order(value->type));
    });
    if (!any) return;
    for (const auto& output : node.outputs) {
      all =
          all && (!rewriter_.uses(output.get()) || (is_float_tensor(output.get(), 4) && has_known_order(output->type)));
    }
    if (all) return give_order(node);
    node.each_input([&](Value*& value) {
      if (was_changed(value)) value = copied(node, value, at::MemoryFormat::Contiguous);
    });
  }

  bool was_changed(const Value* value) const {
    auto found = recorded_.find(value);
    return found != recorded_.end() && found->second.strides != value->type.strides;
  }

  void give_order(Node& node) {
    for (const auto& output : node.outputs) {
      if (output->type.sizes.size() != 4) continue;
      recorded_[output.get()] = output->type;
      output->type.strides = channels_last_strides(output->type);
      last_.insert(output.get());
    }
  }

  Value* reordered(Node& node, Value* value) {
    if (last_.count(value) || value->type.strides == channels_last_strides(value->type)) return value;
    return copied(node, value, at::MemoryFormat::ChannelsLast);
  }

  Value* copied(Node& node, Value* value, at::MemoryFormat format) {
    Value*& copy = copies_[value];
    if (copy) return copy;
    Type type = tensor_like(value->type, value->type.sizes);
    const bool recorded = format == at::MemoryFormat::Contiguous;
    type.strides = recorded ? recorded_.at(value).strides : channels_last_strides(type);
    copy = rewriter_.add(node, "aten::clone", "", {value, Arg::of_const(static_cast<int64_t>(format))}, type);
    if (!recorded) last_.insert(copy);
    return copy;
  }

  bool put_back_results() {
    bool any = false;
    auto put_back = [&](Value*& value) {
      if (!was_changed(value)) return;
      value = copied(*value->def, value, at::MemoryFormat::Contiguous);
      any = true;
    };
    for (Arg& output : graph_.outputs) output.each_value(put_back);
    for (Mutation& mutation : graph_.mutations) put_back(mutation.updated);
    return any;
  }

  Graph& graph_;
  Rewriter rewriter_;
  std::unordered_set<const Value*> last_;
  std::unordered_map<const Value*, Type> recorded_;  // as they were
  std::unordered_map<const Value*, Value*> copies_;
};

}  // namespace

bool keep_channels_last(Graph& graph) { return Orderer(graph).run(); }

}  // namespace firesteel
