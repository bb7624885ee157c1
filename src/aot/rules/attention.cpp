// Shape rules of the CPU's fused attention, forward and backward: gradients lie as (batch, length, head, width).
#include "aot/rules/rules.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty_like.h>

namespace firesteel {
namespace {

// Dense with the second and third dimension swapped in memory.
at::Tensor heads_inside(at::IntArrayRef sizes, at::ScalarType dtype) {
  std::vector<int64_t> swapped = sizes.vec();
  std::swap(swapped[1], swapped[2]);
  at::Tensor result = meta_tensor(swapped, dtype);
  return result.transpose(1, 2);
}

bool flash_attention(RuleCall& call) {
  const at::Tensor query = call.tensor(0);
  if (query.dim() != 4) return false;
  call.give(at::empty_like(query));  // lies as the query does
  call.give(heads_inside(query.sizes().slice(0, 3), at::toOpMathType(query.scalar_type())));
  return true;
}

bool flash_attention_backward(RuleCall& call) {
  for (size_t i = 1; i <= 3; ++i) {
    const at::Tensor input = call.tensor(i);
    if (input.dim() != 4) return false;
    call.give(heads_inside(input.sizes(), input.scalar_type()));
  }
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> attention_rules() { return kRules; }

}  // namespace firesteel
