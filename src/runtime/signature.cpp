// Checks inputs against the traced ones: fast on the way through, in words when they differ.
#include "runtime/signature.h"

#include <c10/core/GradMode.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace firesteel {
namespace {

// The stride of a dimension of size 0 or 1 means nothing.
bool same_strides(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

template <class List>
std::string bracketed(const List& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

}  // namespace

Signature::Signature(const Trace& trace, bool with_gradients) : with_gradients_(with_gradients) {
  size_t argument = 0;
  for (const Input& input : trace.joint.graph.inputs) {
    if (input.role != InputRole::Argument) continue;
    const Type& type = input.value->type;
    Expected expected{{}, {}, type.dtype, type.device, type.requires_grad, trace.duplicate_of.at(argument++)};
    for (const Dim& size : type.sizes) expected.sizes.push_back(size.number());
    for (const Dim& stride : type.strides) expected.strides.push_back(stride.number());
    expected_.push_back(std::move(expected));
  }
}

bool Signature::matches(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != expected_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Expected& expected = expected_[i];
    const at::Tensor& input = inputs[i];
    if (!input.defined() || input.layout() != at::kStrided || input.scalar_type() != expected.dtype ||
        input.device() != expected.device || input.sizes() != at::IntArrayRef(expected.sizes) ||
        !same_strides(expected.sizes, input.strides(), expected.strides)) {
      return false;
    }
    if (with_gradients_ && input.requires_grad() && !expected.requires_grad && c10::GradMode::is_enabled()) return false;
    if (expected.duplicate_of >= 0 && !input.is_same(inputs[expected.duplicate_of])) return false;
  }
  return true;
}

std::string Signature::mismatch(const std::vector<at::Tensor>& inputs) const {
  if (matches(inputs)) return {};
  if (inputs.size() != expected_.size()) {
    return fmt::format("the graph was traced with {} tensors and got {}", expected_.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Expected& expected = expected_[i];
    const at::Tensor& input = inputs[i];
    auto differs = [&](const char* what, const std::string& traced, const std::string& given) {
      return fmt::format("input {} has another {} than in the trace: traced {}, given {}", i, what, traced, given);
    };
    if (!input.defined()) return fmt::format("input {} is undefined", i);
    if (input.layout() != at::kStrided) return differs("layout", "strided", c10::str(input.layout()));
    if (input.scalar_type() != expected.dtype) return differs("dtype", dtype_text(expected.dtype), dtype_text(input.scalar_type()));
    if (input.device() != expected.device) return differs("device", expected.device.str(), input.device().str());
    if (input.sizes() != at::IntArrayRef(expected.sizes)) return differs("shape", bracketed(expected.sizes), bracketed(input.sizes()));
    if (!same_strides(expected.sizes, input.strides(), expected.strides)) {
      return differs("strides", bracketed(expected.strides), bracketed(input.strides()));
    }
    if (with_gradients_ && input.requires_grad() && !expected.requires_grad) {
      return differs("requires_grad", "False", "True") + ": its gradient would be lost";
    }
    if (expected.duplicate_of >= 0 && !input.is_same(inputs[expected.duplicate_of])) {
      return fmt::format("inputs {} and {} were one tensor in the trace and are two now", expected.duplicate_of, i);
    }
  }
  return "the inputs differ from those of the trace";
}

}  // namespace firesteel
