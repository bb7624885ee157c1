// Shape rules of indexing, slicing, rolling and their backward, and of reductions without a C++ shape kernel.
#include "aot/rules/rules.h"

#include <ATen/WrapDimUtils.h>

namespace firesteel {
namespace {

// select_backward and its like: a dense tensor of the sizes given as the second argument.
bool zeros_of_given_sizes(RuleCall& call) {
  call.give(meta_tensor(call.args[1].toIntVector(), call.tensor(0).scalar_type()));
  return true;
}

// slice_scatter and its like keep the strides of what they write into.
bool scattered(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  if (!self.is_non_overlapping_and_dense()) return false;
  call.give(meta_tensor(self.sizes(), self.strides(), self.scalar_type()));
  return true;
}

bool index_select(RuleCall& call) {
  const at::Tensor self = call.tensor(0), index = call.tensor(2);
  std::vector<int64_t> sizes = self.sizes().vec();
  if (index.dim() > 1) return false;
  if (!sizes.empty()) sizes[at::maybe_wrap_dim(call.args[1].toInt(), self.dim())] = index.numel();
  call.give(meta_tensor(sizes, self.scalar_type()));
  return true;
}

bool roll(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  if (self.numel() == 0 || self.suggest_memory_format() != at::MemoryFormat::Contiguous) return false;
  call.give(meta_tensor(self.sizes(), self.scalar_type()));
  return true;
}

bool embedding_backward(RuleCall& call) {
  const at::Tensor gradient = call.tensor(0);
  call.give(meta_tensor({call.args[2].toInt(), gradient.size(-1)}, gradient.scalar_type()));
  return true;
}

bool nonzero_static(RuleCall& call) {
  if (!call.device.is_cpu()) return false;
  call.give(meta_tensor({call.args[1].toInt(), call.tensor(0).dim()}, at::kLong));
  return true;
}

// Of nothing it gives nothing, whatever size was promised.
bool repeat_interleave(RuleCall& call) {
  if (!call.device.is_cpu() || call.args[1].isNone() || call.tensor(0).dim() != 1) return false;
  const int64_t size = call.tensor(0).numel() == 0 ? 0 : call.args[1].toInt();
  call.give(meta_tensor({size}, call.tensor(0).scalar_type()));
  return true;
}

bool dot(RuleCall& call) {
  if (call.tensor(0).dim() != 1 || call.tensor(0).sizes() != call.tensor(1).sizes() ||
      call.tensor(0).scalar_type() != call.tensor(1).scalar_type()) {
    return false;
  }
  call.give(meta_tensor({}, call.tensor(0).scalar_type()));
  return true;
}

// var and std over some dimensions, or all.
bool variance(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  if (!self.is_floating_point()) return false;
  const std::vector<int64_t> dims = call.args[1].isNone() ? std::vector<int64_t>() : call.args[1].toIntVector();
  const bool keep = call.args[3].toBool();
  std::vector<bool> reduced(self.dim(), dims.empty());
  for (int64_t dim : dims) {
    const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    if (self.dim() == 0 || reduced[wrapped]) return false;
    reduced[wrapped] = true;
  }
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!reduced[d]) {
      sizes.push_back(self.size(d));
    } else if (keep) {
      sizes.push_back(1);
    }
  }
  call.give(meta_tensor(sizes, self.scalar_type()));
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::select_backward", zeros_of_given_sizes},
    {"aten::slice_backward", zeros_of_given_sizes},
    {"aten::slice_scatter", scattered},
    {"aten::select_scatter", scattered},
    {"aten::index_select", index_select},
    {"aten::roll", roll},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::nonzero_static", nonzero_static},
    {"aten::repeat_interleave.Tensor", repeat_interleave},
    {"aten::dot", dot},
    {"aten::var.correction", variance},
    {"aten::std.correction", variance},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> indexing_rules() { return kRules; }

}  // namespace firesteel
