// Shape rules of convolution and its backward: the layout is the one the real backend would pick.
#include "aot/rules/rules.h"

#include <ATen/native/ConvUtils.h>

namespace firesteel {
namespace {

std::vector<int64_t> spatial(const c10::IValue& value, int64_t count) {
  std::vector<int64_t> list = value.toIntVector();
  if (static_cast<int64_t>(list.size()) == 1 && count > 1) list.resize(count, list[0]);
  return list;
}

std::vector<int64_t> output_sizes(RuleCall& call, const at::Tensor& input, const at::Tensor& weight) {
  const int64_t dims = weight.dim() - 2;
  const auto stride = spatial(call.args[3], dims), padding = spatial(call.args[4], dims),
             dilation = spatial(call.args[5], dims);
  const bool transposed = call.args[6].toBool();
  const auto output_padding = spatial(call.args[7], dims);
  const int64_t groups = call.args[8].toInt();
  if (transposed)
    return at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride, dilation,
                                       groups);
  return at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
}

// One number for all dimensions or one each, and steps that lead forward; else the operator itself will complain.
bool is_well_formed(const RuleCall& call, int64_t dims) {
  for (size_t index : {3, 4, 5, 7}) {
    const std::vector<int64_t> list = call.args[index].toIntVector();
    if (list.size() != 1 && static_cast<int64_t>(list.size()) != dims) return false;
    for (int64_t number : list) {
      if ((index == 3 || index == 5) && number <= 0) return false;
    }
  }
  return true;
}

// The CPU's kernels answer in channels_last where input or weight is so; 3-d inputs are always contiguous.
at::MemoryFormat layout_for(const RuleCall& call, const at::Tensor& input, const at::Tensor& weight) {
  if (input.dim() == 4 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                           weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast)) {
    return at::MemoryFormat::ChannelsLast;
  }
  if (input.dim() == 5 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d ||
                           weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d)) {
    return at::MemoryFormat::ChannelsLast3d;
  }
  return at::MemoryFormat::Contiguous;
}

bool convolution(RuleCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(1);
  if (input.dim() != weight.dim() || input.dim() < 3 || !is_well_formed(call, weight.dim() - 2)) return false;
  const std::vector<int64_t> sizes = output_sizes(call, input, weight);
  for (int64_t size : sizes) {
    if (size < 0) return false;
  }
  call.give(meta_tensor(sizes, input.scalar_type(), layout_for(call, input, weight)));
  return true;
}

bool convolution_backward(RuleCall& call) {
  const at::Tensor input = call.tensor(1), weight = call.tensor(2);
  if (input.dim() != weight.dim() || input.dim() < 3) return false;
  const at::MemoryFormat format = layout_for(call, input, weight);
  const auto wanted = call.args[10].toBoolList();
  call.give(wanted.get(0) ? meta_tensor(input.sizes(), input.scalar_type(), format) : at::Tensor());
  call.give(wanted.get(1) ? meta_tensor(weight.sizes(), weight.scalar_type(), format) : at::Tensor());
  const int64_t channels = call.tensor(0).size(1);
  call.give(wanted.get(2) ? meta_tensor({channels}, weight.scalar_type()) : at::Tensor());
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::convolution_backward", convolution_backward},
    {"aten::convolution", convolution},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> convolution_rules() { return kRules; }

}  // namespace firesteel
