// Shape rules of adaptive pooling, unpooling and grid sampling.
#include "aot/rules/rules.h"

namespace firesteel {
namespace {

at::MemoryFormat image_format(const at::Tensor& image) {
  return image.dim() == 4 ? image.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

bool adaptive_average(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  const std::vector<int64_t> target = call.args[1].toIntVector();
  if ((self.dim() != 3 && self.dim() != 4) || target.size() != 2) return false;
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[sizes.size() - 2] = target[0];
  sizes[sizes.size() - 1] = target[1];
  call.give(meta_tensor(sizes, self.scalar_type(), image_format(self)));
  return true;
}

bool adaptive_average_backward(RuleCall& call) {
  const at::Tensor self = call.tensor(1);
  if (self.dim() != 3 && self.dim() != 4) return false;
  call.give(meta_tensor(self.sizes(), self.scalar_type(), image_format(self)));
  return true;
}

bool max_unpool(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  const std::vector<int64_t> target = call.args[2].toIntVector();
  if (!call.device.is_cpu() || (self.dim() != 3 && self.dim() != 4) || target.size() != 2) return false;
  if (call.tensor(1).sizes() != self.sizes()) return false;
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[sizes.size() - 2] = target[0];
  sizes[sizes.size() - 1] = target[1];
  call.give(meta_tensor(sizes, self.scalar_type(), image_format(self)));
  return true;
}

bool grid_sampler(RuleCall& call) {
  const at::Tensor input = call.tensor(0), grid = call.tensor(1);
  if (input.dim() != 4 || grid.dim() != 4 || input.size(0) != grid.size(0) || grid.size(3) != 2) return false;
  call.give(meta_tensor({input.size(0), input.size(1), grid.size(1), grid.size(2)}, input.scalar_type()));
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::_adaptive_avg_pool2d", adaptive_average},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_average_backward},
    {"aten::max_unpool2d", max_unpool},
    {"aten::grid_sampler_2d", grid_sampler},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> pooling_rules() { return kRules; }

}  // namespace firesteel
