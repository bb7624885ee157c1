// Checks inputs against the traced ones: fast on the way through, in words when they differ.
#include "runtime/signature.h"

#include <algorithm>

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>
#include <c10/util/SmallVector.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace firesteel {
namespace {

constexpr int64_t kOpen = INT64_MIN;

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
  for (const auto& [dims, numbers] : {std::pair(&type.sizes, &sizes), std::pair(&type.strides, &strides)}) {
    for (const Dim& dim : *dims) {
      numbers->push_back(dim.is_number() ? dim.number() : kOpen);
      if (!dim.is_number()) open.push_back(dim);
    }
  }
  if (!open.empty()) open_sizes.emplace(open);
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> Signature::Layout::wanted(const SymbolValues& symbols) const {
  std::pair found{sizes, strides};
  if (!open_sizes) return found;
  const std::vector<int64_t> values = open_sizes->run(symbols);
  size_t next = 0;
  for (std::vector<int64_t>* numbers : {&found.first, &found.second}) {
    for (int64_t& number : *numbers) {
      if (number == kOpen) number = values[next++];
    }
  }
  return found;
}

bool Signature::Layout::fits(const at::Tensor& tensor, const SymbolValues& symbols) const {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.scalar_type() != dtype ||
      tensor.device() != device || has_tangent(tensor)) {
    return false;
  }
  if (!open_sizes) return tensor.sizes() == at::IntArrayRef(sizes) && same_strides(sizes, tensor.strides(), strides);
  const auto [now, now_strides] = wanted(symbols);
  return tensor.sizes() == at::IntArrayRef(now) && same_strides(now, tensor.strides(), now_strides);
}

std::string Signature::Layout::difference(const std::string& name, const at::Tensor& tensor,
                                          const SymbolValues& symbols) const {
  if (!tensor.defined()) return name + " is undefined";
  if (has_tangent(tensor))
    return name + " has a tangent of forward-mode differentiation, which no graph computes on with";
  if (tensor.layout() != at::kStrided) return differs(name, "layout", "strided", c10::str(tensor.layout()));
  if (tensor.scalar_type() != dtype) return differs(name, "dtype", dtype_text(dtype), dtype_text(tensor.scalar_type()));
  if (tensor.device() != device) return differs(name, "device", device.str(), tensor.device().str());
  const auto [sizes_now, strides_now] = wanted(symbols);
  if (tensor.sizes() != at::IntArrayRef(sizes_now))
    return differs(name, "shape", bracketed(sizes_now), bracketed(tensor.sizes()));
  if (!same_strides(sizes_now, tensor.strides(), strides_now)) {
    return differs(name, "strides", bracketed(strides_now), bracketed(tensor.strides()));
  }
  return {};
}

Signature::Signature(const Trace& trace, bool with_gradients)
    : symbols_(trace.symbols),
      with_gradients_(with_gradients),
      writes_(!trace.joint.graph.mutations.empty()),
      facts_(trace.arguments) {
  std::vector<Relation> relations;
  std::vector<std::string> names;
  for (const ShapeGuard& guard : trace.shape_guards) relations.push_back(guard.relation);
  for (const SymbolOrigin& symbol : symbols_) names.push_back(symbol.name);
  if (!relations.empty()) guards_.emplace(relations, names);
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

std::optional<SymbolValues> Signature::find_symbols(const Tensors& inputs) const {
  SymbolValues values;
  values.reserve(symbols_.size());
  for (const SymbolOrigin& symbol : symbols_) {
    if (symbol.from_data()) {  // a run finds it out
      values.push_back(0);
      continue;
    }
    const auto at = static_cast<size_t>(symbol.argument);
    if (at >= inputs.size() || !inputs[at].defined()) return std::nullopt;
    const at::Tensor& input = inputs[at];
    if (symbol.dim < 0) {
      if (input.scalar_type() != at::kLong || input.dim() != 0) return std::nullopt;
      values.push_back(*input.const_data_ptr<int64_t>());
    } else {
      if (symbol.dim >= input.dim()) return std::nullopt;
      values.push_back(input.sizes()[symbol.dim]);
    }
  }
  return values;
}

SymbolValues Signature::symbols(const Tensors& inputs) const {
  if (symbols_.empty()) return {};
  std::optional<SymbolValues> values = find_symbols(inputs);
  FS_CHECK(values, "the inputs do not have the sizes that the graph leaves open");
  return std::move(*values);
}

bool Signature::sizes_fit(const SymbolValues& symbols) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i].from_data()) continue;
    if (symbols[i] < symbols_[i].least || symbols[i] > symbols_[i].most) return false;
  }
  return !guards_ || guards_->run(symbols.data()) < 0;
}

std::string Signature::size_mismatch(const SymbolValues& symbols) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const SymbolOrigin& symbol = symbols_[i];
    if (symbol.from_data() || (symbols[i] >= symbol.least && symbols[i] <= symbol.most)) continue;
    return fmt::format("dimension {} of input {} is {}, which the graph does not serve: it takes sizes from {}{}",
                       symbol.dim, symbol.argument, symbols[i], symbol.least,
                       symbol.most == INT64_MAX ? " on" : fmt::format(" to {}", symbol.most));
  }
  return sizes_fit(symbols) ? std::string() : "the inputs' sizes break a condition that the trace was made under";
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
  return layout.fits(tensor, {}) && !would_lose_gradient(tensor, layout) &&
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
  const std::optional<SymbolValues> symbols = find_symbols(inputs);
  if (!symbols || !sizes_fit(*symbols)) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!layouts_[i].fits(inputs[i], *symbols)) return false;
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
    if (std::string difference = layout.difference(name, tensor, {}); !difference.empty()) return difference;
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
  const std::optional<SymbolValues> symbols = find_symbols(inputs);
  if (!symbols) return "an input has fewer dimensions than in the trace";
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string difference = layouts_[i].difference(fmt::format("input {}", i), inputs[i], *symbols);
    if (!difference.empty()) return difference;
  }
  if (std::string text = size_mismatch(*symbols); !text.empty()) return text;
  const Tensors held = captured();
  if (std::string text = captured_mismatch(held, exactly); !text.empty()) return text;
  for (std::string text : {gradient_mismatch(inputs, exactly), memory_mismatch(inputs, held, exactly)}) {
    if (!text.empty()) return text;
  }
  return "the inputs differ from those of the trace";
}

}  // namespace firesteel
