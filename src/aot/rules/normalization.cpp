// Shape rules of layer norm, group norm and batch norm, forward and backward.
#include "aot/rules/rules.h"

namespace firesteel {
namespace {

at::ScalarType statistics_dtype(const RuleCall& call, const at::Tensor& input) {
  // The CPU keeps the input's type unless the affine parameters are wider; CUDA accumulates in float.
  if (!call.device.is_cpu() && (input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16)) return at::kFloat;
  return input.scalar_type();
}

bool layer_norm(RuleCall& call) {
  const at::Tensor x = call.tensor(0);
  const int64_t kept = x.dim() - static_cast<int64_t>(call.args[1].toIntVector().size());
  if (kept < 0) return false;
  std::vector<int64_t> stats = x.sizes().vec();
  for (size_t d = kept; d < stats.size(); ++d) stats[d] = 1;
  at::ScalarType dtype = statistics_dtype(call, x);
  if (call.device.is_cpu() && call.has_tensor(2) && call.tensor(2).scalar_type() != x.scalar_type()) dtype = at::kFloat;
  call.give(meta_tensor(x.sizes(), x.scalar_type()));
  call.give(meta_tensor(stats, dtype));
  call.give(meta_tensor(stats, dtype));
  return true;
}

// Gradients of input, weight and bias, each where the mask asks for it.
bool layer_norm_backward(RuleCall& call) {
  const std::vector<bool> wanted = [&] {
    const auto mask = call.args[7].toBoolList();
    return std::vector<bool>{mask.get(0), mask.get(1), mask.get(2)};
  }();
  const size_t like[3] = {1, 5, 6};
  for (size_t i = 0; i < 3; ++i) {
    if (wanted[i] && call.has_tensor(like[i])) {
      call.give(meta_tensor(call.tensor(like[i]).sizes(), call.tensor(like[i]).scalar_type()));
    } else {
      call.give({});
    }
  }
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> normalization_rules() { return kRules; }

}  // namespace firesteel
