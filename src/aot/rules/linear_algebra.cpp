// Shape rules of operators whose CPU kernels answer in LAPACK's or MKL's own layout.
#include "aot/rules/rules.h"

#include <ATen/WrapDimUtils.h>

namespace firesteel {
namespace {

// The last two dimensions lie column by column.
at::Tensor column_major(at::IntArrayRef sizes, at::ScalarType dtype) {
  std::vector<int64_t> swapped = sizes.vec();
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return meta_tensor(swapped, dtype).transpose(-1, -2);
}

bool eig(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  if (!call.device.is_cpu() || self.dim() < 2 || self.size(-1) != self.size(-2) ||
      !(self.is_floating_point() || self.is_complex())) {
    return false;
  }
  const at::ScalarType dtype = c10::toComplexType(self.scalar_type());
  call.give(meta_tensor(self.sizes().slice(0, self.dim() - 1), dtype));
  call.give(column_major(self.sizes(), dtype));
  return true;
}

// The product of three tensors, each spread over the dimensions of its list, summed over some.
bool trilinear(RuleCall& call) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> spread = call.args[3 + i].toIntVector();
    std::vector<int64_t> own = call.tensor(i).sizes().vec();
    for (int64_t dim : spread) own.insert(own.begin() + std::min<int64_t>(dim, own.size()), 1);
    if (sizes.empty()) sizes.assign(own.size(), 1);
    if (own.size() != sizes.size()) return false;
    for (size_t d = 0; d < own.size(); ++d) {
      if (own[d] != 1) sizes[d] = own[d];
    }
  }
  std::vector<bool> summed(sizes.size(), false);
  for (int64_t dim : call.args[6].toIntVector()) summed.at(dim) = true;
  std::vector<int64_t> kept;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!summed[d]) kept.push_back(sizes[d]);
  }
  call.give(meta_tensor(kept, call.tensor(0).scalar_type()));
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::linalg_eig", eig},
    {"aten::_trilinear", trilinear},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> linear_algebra_rules() { return kRules; }

}  // namespace firesteel
