// The table of shape rules, gathered from the files of rules/, and the meta tensors they make.
#include "aot/shape_rules.h"

#include <unordered_map>

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty_like.h>

#include "aot/rules/rules.h"
#include "base/error.h"

namespace firesteel {

ShapeRule find_shape_rule(std::string_view op) {
  static const auto* table = [] {
    auto* rules = new std::unordered_map<std::string_view, ShapeRule>();
    for (c10::ArrayRef<ShapeRuleEntry> group : rule_groups()) {
      for (const ShapeRuleEntry& entry : group) {
        FS_CHECK(rules->emplace(entry.op, entry.rule).second, "{} has two shape rules", entry.op);
      }
    }
    return rules;
  }();
  auto found = table->find(op);
  return found == table->end() ? nullptr : found->second;
}

at::Tensor meta_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_meta(sizes, strides, dtype);
}

at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype) { return at::detail::empty_meta(sizes, dtype); }

at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format) {
  return at::detail::empty_meta(sizes, dtype, format);
}

at::Tensor meta_preserving(const at::Tensor& like, at::ScalarType dtype) {
  if (like.is_non_overlapping_and_dense()) return meta_tensor(like.sizes(), like.strides(), dtype);
  return meta_tensor(like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()), dtype);
}

at::Tensor meta_view(const at::Tensor& base, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                             base.key_set(), base.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return view;
}

}  // namespace firesteel
