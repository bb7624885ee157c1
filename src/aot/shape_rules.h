// Shape rules: what an operator's results look like, computed in C++ on meta tensors.
//
// A rule exists where torch has no C++ shape kernel, where that kernel is slow, or where the result's layout depends on
// the device. It must agree with the real kernel in sizes, strides, dtype and aliasing: replaying every operator
// against eager tests it.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

namespace firesteel {

// One call of an operator: arguments in schema order (tensors are meta tensors), results to be filled in.
struct RuleCall {
  c10::ArrayRef<c10::IValue> args;
  c10::Device device;  // where the real tensors live
  std::vector<c10::IValue> results;

  at::Tensor tensor(size_t i) const { return args[i].toTensor(); }
  bool has_tensor(size_t i) const { return args[i].isTensor() && args[i].toTensor().defined(); }
  void give(at::Tensor result) { results.emplace_back(std::move(result)); }
};

// False: this call is not one the rule knows; the next source of shapes is asked. A rule that throws reports the
// user's mistake (mismatched shapes), in torch's own words where it can.
using ShapeRule = bool (*)(RuleCall&);

struct ShapeRuleEntry {
  std::string_view op;  // "aten::mm", "aten::where.self"
  ShapeRule rule;
};

// Null where there is none.
ShapeRule find_shape_rule(std::string_view op);

// A fresh meta tensor.
at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype);  // contiguous
at::Tensor meta_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);
at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format);
// Same sizes and strides as `like` where it is dense and does not overlap, else as torch's empty_like has it.
at::Tensor meta_preserving(const at::Tensor& like, at::ScalarType dtype);
// A view of `base`: shares its storage.
at::Tensor meta_view(const at::Tensor& base, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);

}  // namespace firesteel
