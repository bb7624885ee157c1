// Checks inputs against the traced ones: fast on the way through, in words when they differ.
#include "runtime/signature.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>
#include <c10/util/SmallVector.h>
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

std::string differs(const std::string& name, const char* what, const std::string& traced, const std::string& given) {
  return fmt::format("{} has another {} than in the trace: traced {}, given {}", name, what, traced, given);
}

const char* yes_or_no(bool value) { return value ? "true" : "false"; }

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

// For each item: the first earlier one with the same key, or -1. Null keys are like nothing.
class Earlier {
 public:
  template <class KeyOf>
  Earlier(const std::vector<at::Tensor>& items, KeyOf&& key_of) : first_(items.size(), -1) {
    std::unordered_map<const void*, int32_t> seen;
    for (size_t i = 0; i < items.size(); ++i) {
      const void* key = key_of(items[i]);
      if (!key) continue;
      if (items.size() > kFew) {
        auto [found, is_new] = seen.emplace(key, static_cast<int32_t>(i));
        if (!is_new) first_[i] = found->second;
        continue;
      }
      for (size_t k = 0; k < i && first_[i] < 0; ++k) {
        if (key_of(items[k]) == key) first_[i] = static_cast<int32_t>(k);
      }
    }
  }
  int32_t operator[](size_t i) const { return first_[i]; }

 private:
  static constexpr size_t kFew = 16;
  c10::SmallVector<int32_t, kFew> first_;
};

Earlier earlier_storage(const std::vector<at::Tensor>& inputs) { return Earlier(inputs, storage_of); }
Earlier earlier_tensor(const std::vector<at::Tensor>& inputs) {
  return Earlier(inputs, [](const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); });
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  return storage_of(a) && storage_of(a) == storage_of(b) && at::get_overlap_status(a, b) != at::MemOverlapStatus::No;
}

}  // namespace

Signature::Layout::Layout(const Type& type)
    : dtype(type.dtype), device(type.device), requires_grad(type.requires_grad) {
  for (const Dim& size : type.sizes) sizes.push_back(size.number());
  for (const Dim& stride : type.strides) strides.push_back(stride.number());
}

bool Signature::Layout::fits(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.scalar_type() == dtype &&
         tensor.device() == device && tensor.sizes() == at::IntArrayRef(sizes) &&
         same_strides(sizes, tensor.strides(), strides);
}

std::string Signature::Layout::difference(const std::string& name, const at::Tensor& tensor) const {
  if (!tensor.defined()) return name + " is undefined";
  if (tensor.layout() != at::kStrided) return differs(name, "layout", "strided", c10::str(tensor.layout()));
  if (tensor.scalar_type() != dtype) return differs(name, "dtype", dtype_text(dtype), dtype_text(tensor.scalar_type()));
  if (tensor.device() != device) return differs(name, "device", device.str(), tensor.device().str());
  if (tensor.sizes() != at::IntArrayRef(sizes))
    return differs(name, "shape", bracketed(sizes), bracketed(tensor.sizes()));
  if (!same_strides(sizes, tensor.strides(), strides)) {
    return differs(name, "strides", bracketed(strides), bracketed(tensor.strides()));
  }
  return {};
}

Signature::Signature(const Trace& trace, bool with_gradients)
    : with_gradients_(with_gradients), writes_(!trace.joint.graph.mutations.empty()), facts_(trace.arguments) {
  for (const Input& input : trace.joint.graph.inputs) {
    Layout layout(input.value->type);
    for (const Mutation& mutation : trace.joint.graph.mutations)
      layout.is_written |= mutation.input == input.value.get();
    if (input.role == InputRole::Argument) {
      layouts_.push_back(std::move(layout));
    } else if (input.role == InputRole::Captured && input.captured.defined()) {
      captured_.push_back({input.captured, WeakTensor(input.captured.getIntrusivePtr()), std::move(layout)});
    }
  }
}

std::vector<at::Tensor> Signature::captured() const {
  Tensors tensors;
  tensors.reserve(captured_.size());
  for (const Captured& captured : captured_) {
    tensors.push_back(captured.tensor.defined() ? captured.tensor : at::Tensor(captured.weak.lock()));
  }
  return tensors;
}

void Signature::let_go(const TensorSet& tensors) {
  for (Captured& captured : captured_) {
    if (tensors.count(captured.tensor.unsafeGetTensorImpl())) captured.tensor = at::Tensor();
  }
}

bool Signature::would_lose_gradient(const at::Tensor& tensor, const Layout& layout) const {
  return with_gradients_ && tensor.requires_grad() && !layout.requires_grad && c10::GradMode::is_enabled();
}

bool Signature::captured_fits(size_t index, const at::Tensor& tensor, bool exactly) const {
  const Layout& layout = captured_[index].layout;
  return layout.fits(tensor) && !would_lose_gradient(tensor, layout) &&
         !(exactly && tensor.requires_grad() != layout.requires_grad);
}

bool Signature::all_captured_fit(const Tensors& captured, bool exactly) const {
  for (size_t i = 0; i < captured_.size(); ++i) {
    if (!captured_fits(i, captured[i], exactly)) return false;
  }
  return true;
}

bool Signature::gradients_fit(const Tensors& inputs, bool exactly) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (facts_[i].duplicate_of >= 0) continue;  // the first of the two speaks for both
    if (would_lose_gradient(inputs[i], layouts_[i])) return false;
    if (exactly && inputs[i].requires_grad() != layouts_[i].requires_grad) return false;
  }
  return true;
}

bool Signature::memory_fits(const Tensors& inputs, const Tensors& captured, bool exactly) const {
  const Earlier storages = earlier_storage(inputs), tensors = earlier_tensor(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentFacts& facts = facts_[i];
    const at::Tensor& input = inputs[i];
    if (input.is_conj() != facts.is_conj || input.is_neg() != facts.is_neg) return false;
    if (!facts.is_for(input)) return false;
    if (facts.duplicate_of >= 0 && !input.is_same(inputs[facts.duplicate_of])) return false;
    const bool shared = facts.shares_storage >= 0;
    // A graph that writes nothing does not care about memory that is newly shared; views it made must stay views.
    if (!shared && !writes_ && !exactly) continue;
    if (storages[i] != facts.shares_storage) return false;
    if (shared && (input.storage_offset() != facts.storage_offset ||
                   inputs[facts.shares_storage].storage_offset() != facts_[facts.shares_storage].storage_offset)) {
      return false;
    }
    if (shared && exactly && tensors[i] != facts.duplicate_of) return false;
  }
  if (!writes_) return true;
  // Where one of the two is written to, an argument that newly overlaps a captured tensor would not see it as in eager.
  for (size_t k = 0; k < captured_.size(); ++k) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if ((captured_[k].layout.is_written || layouts_[i].is_written) && overlap(captured[k], inputs[i])) return false;
    }
  }
  return true;
}

bool Signature::matches(const Tensors& inputs, const Tensors& captured) const {
  if (inputs.size() != layouts_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!layouts_[i].fits(inputs[i])) return false;
  }
  for (size_t i = 0; i < captured_.size(); ++i) {
    if (captured_[i].tensor.defined() && !captured_fits(i, captured[i], false)) return false;
  }
  return memory_fits(inputs, captured, false) && gradients_fit(inputs, false);
}

bool Signature::matches(const std::vector<at::Tensor>& inputs) const {
  const Tensors held = captured();
  return all_captured_fit(held, false) && matches(inputs, held);
}

bool Signature::matches_exactly(const std::vector<at::Tensor>& inputs) const {
  const Tensors held = captured();
  return all_captured_fit(held, true) && matches(inputs, held) && memory_fits(inputs, held, true) &&
         gradients_fit(inputs, true);
}

std::string Signature::gradient_mismatch(const Tensors& inputs, bool exactly) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (facts_[i].duplicate_of >= 0) continue;
    const bool traced = layouts_[i].requires_grad, given = inputs[i].requires_grad();
    const bool loses = would_lose_gradient(inputs[i], layouts_[i]);
    if (loses || (exactly && traced != given)) {
      return differs(fmt::format("input {}", i), "requires_grad", yes_or_no(traced), yes_or_no(given)) +
             (loses ? ": its gradient would be lost" : "");
    }
  }
  return {};
}

std::string Signature::memory_mismatch(const Tensors& inputs, const Tensors& captured, bool exactly) const {
  const Earlier storages = earlier_storage(inputs), tensors = earlier_tensor(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentFacts& facts = facts_[i];
    const at::Tensor& input = inputs[i];
    const std::string name = fmt::format("input {}", i);
    if (input.is_conj() != facts.is_conj)
      return differs(name, "conjugate bit", yes_or_no(facts.is_conj), yes_or_no(input.is_conj()));
    if (input.is_neg() != facts.is_neg)
      return differs(name, "negative bit", yes_or_no(facts.is_neg), yes_or_no(input.is_neg()));
    if (!facts.is_for(input)) {
      return name + " was in the trace a tensor that the function also captures, and is another one now";
    }
    if (facts.duplicate_of >= 0 && !input.is_same(inputs[facts.duplicate_of])) {
      return fmt::format("inputs {} and {} were one tensor in the trace and are two now", facts.duplicate_of, i);
    }
    const int32_t same = tensors[i], shared = storages[i];
    if ((exactly || writes_) && facts.duplicate_of < 0 && same >= 0) {
      return fmt::format("inputs {} and {} were two tensors in the trace and are one now", same, i);
    }
    if (facts.shares_storage >= 0 && shared != facts.shares_storage) {
      return fmt::format("inputs {} and {} shared memory in the trace and do not now", facts.shares_storage, i);
    }
    if (facts.shares_storage < 0 && shared >= 0 && (exactly || writes_)) {
      return fmt::format("inputs {} and {} shared no memory in the trace and do now", shared, i);
    }
  }
  return memory_fits(inputs, captured, exactly) ? std::string()
                                                : "the inputs share memory in another way than in the trace";
}

std::string Signature::captured_mismatch(const Tensors& captured, bool exactly) const {
  for (size_t i = 0; i < captured_.size(); ++i) {
    const at::Tensor& tensor = captured[i];
    const Layout& layout = captured_[i].layout;
    const std::string name = fmt::format("captured tensor {}", i);
    if (std::string difference = layout.difference(name, tensor); !difference.empty()) return difference;
    if (would_lose_gradient(tensor, layout) || (exactly && tensor.requires_grad() != layout.requires_grad)) {
      return differs(name, "requires_grad", yes_or_no(layout.requires_grad), yes_or_no(tensor.requires_grad()));
    }
  }
  return {};
}

std::string Signature::mismatch(const std::vector<at::Tensor>& inputs, bool exactly) const {
  if (exactly ? matches_exactly(inputs) : matches(inputs)) return {};
  if (inputs.size() != layouts_.size()) {
    return fmt::format("the graph was traced with {} tensors and got {}", layouts_.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string difference = layouts_[i].difference(fmt::format("input {}", i), inputs[i]);
    if (!difference.empty()) return difference;
  }
  const Tensors held = captured();
  if (std::string text = captured_mismatch(held, exactly); !text.empty()) return text;
  for (std::string text : {gradient_mismatch(inputs, exactly), memory_mismatch(inputs, held, exactly)}) {
    if (!text.empty()) return text;
  }
  return "the inputs differ from those of the trace";
}

}  // namespace firesteel
