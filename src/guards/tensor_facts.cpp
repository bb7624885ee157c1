// Reading and comparing tensor facts.
#include "guards/tensor_facts.h"

#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "aot/trace.h"

namespace firesteel::guards {
namespace {

using c10::DispatchKey;

const c10::DispatchKeySet kTransformed({DispatchKey::Functionalize, DispatchKey::Fake, DispatchKey::Python,
                                        DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                                        DispatchKey::NestedTensor});

template <class A, class B>
std::string differs(const char* what, const A& now, const B& then) {
  return fmt::format("{} is {}, was {}", what, now, then);
}

template <class List>
std::string bracketed(const List& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

}  // namespace

TensorFacts::TensorFacts(const at::Tensor& tensor)
    : keys(tensor.key_set()),
      dtype(tensor.scalar_type()),
      device(tensor.device()),
      requires_grad(tensor.requires_grad()),
      is_leaf(tensor.is_leaf()),
      storage_offset(tensor.storage_offset()),
      sizes(tensor.sizes().begin(), tensor.sizes().end()),
      strides(tensor.strides().begin(), tensor.strides().end()) {}

namespace {

bool same_but_open(at::IntArrayRef now, at::IntArrayRef then) {
  if (now.size() != then.size()) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    if (then[i] != TensorFacts::kOpen && now[i] != then[i]) return false;
  }
  return true;
}

std::vector<std::string> spelled(at::IntArrayRef numbers) {
  std::vector<std::string> texts;
  for (int64_t number : numbers) texts.push_back(number == TensorFacts::kOpen ? "any" : std::to_string(number));
  return texts;
}

}  // namespace

void TensorFacts::open(const Type& type) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!type.sizes[d].is_number()) sizes[d] = kOpen;
    if (!type.strides[d].is_number()) strides[d] = kOpen;
    is_open = is_open || sizes[d] == kOpen || strides[d] == kOpen;
  }
}

std::vector<int32_t> TensorFacts::other_sizes(const at::Tensor& tensor, bool loosely) const {
  std::vector<int32_t> dims;
  if (loosely && tensor.dim() != static_cast<int64_t>(sizes.size())) {
    for (int32_t d = 0; d < tensor.dim(); ++d) dims.push_back(d);
    return dims;
  }
  const bool like = tensor.dim() == static_cast<int64_t>(sizes.size()) && tensor.scalar_type() == dtype &&
                    tensor.device() == device && tensor.key_set() == keys;
  if (!like && !loosely) return dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != kOpen && tensor.size(static_cast<int64_t>(d)) != sizes[d]) dims.push_back(static_cast<int32_t>(d));
  }
  return dims;
}

bool TensorFacts::match(const at::Tensor& tensor) const {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const bool same_layout = is_open
                               ? same_but_open(impl->sizes(), sizes) && same_but_open(impl->strides(), strides)
                               : impl->sizes() == at::IntArrayRef(sizes) && impl->strides() == at::IntArrayRef(strides);
  return impl->key_set() == keys && impl->dtype() == c10::scalarTypeToTypeMeta(dtype) && impl->device() == device &&
         same_layout && impl->storage_offset() == storage_offset && impl->requires_grad() == requires_grad &&
         (!requires_grad || tensor.is_leaf() == is_leaf) && !has_tangent(tensor);
}

std::string TensorFacts::difference(const at::Tensor& tensor) const {
  if (tensor.scalar_type() != dtype) return differs("dtype", c10::toString(tensor.scalar_type()), c10::toString(dtype));
  if (tensor.device() != device) return differs("device", tensor.device().str(), device.str());
  if (tensor.key_set() != keys) return differs("kind of tensor", c10::toString(tensor.key_set()), c10::toString(keys));
  if (!same_but_open(tensor.sizes(), sizes))
    return differs("size", bracketed(tensor.sizes()), bracketed(spelled(sizes)));
  if (!same_but_open(tensor.strides(), strides))
    return differs("stride", bracketed(tensor.strides()), bracketed(spelled(strides)));
  if (tensor.storage_offset() != storage_offset)
    return differs("storage offset", tensor.storage_offset(), storage_offset);
  if (tensor.requires_grad() != requires_grad) return differs("requires_grad", tensor.requires_grad(), requires_grad);
  if (requires_grad && tensor.is_leaf() != is_leaf) return differs("is_leaf", tensor.is_leaf(), is_leaf);
  if (has_tangent(tensor)) return "it has a tangent of forward-mode differentiation";
  return {};
}

std::string TensorFacts::str() const {
  std::string text = fmt::format("{}{} {}", c10::toString(dtype), bracketed(spelled(sizes)), device.str());
  if (!is_open && !c10::is_contiguous_strides(sizes, strides)) text += " strides " + bracketed(strides);
  return text + (requires_grad ? " grad" : "");
}

bool is_plain_real(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_meta() && !tensor.is_quantized() &&
         !tensor.key_set().has_any(kTransformed) && tensor.has_storage() && !has_tangent(tensor);
}

}  // namespace firesteel::guards
