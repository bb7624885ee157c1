// Finds indices out of bounds, and lets ATen say so.
#include "runtime/index_check.h"

#include <algorithm>
#include <limits>

#include <ATen/Dispatch.h>
#include <ATen/ops/as_strided.h>
#include <c10/util/SmallVector.h>

namespace firesteel {
namespace {

using Numbers = c10::SmallVector<int64_t, 5>;

// By the time of a call all of them are numbers.
Numbers numbers(const std::vector<Dim>& dims) {
  Numbers result;
  for (const Dim& dim : dims) result.push_back(dim.number());
  return result;
}

at::Tensor viewed(const InputView& view, at::ArrayRef<at::Tensor> inputs) {
  const at::Tensor& input = inputs[view.input];
  return at::as_strided(input, numbers(view.sizes), numbers(view.strides),
                        input.storage_offset() + view.offset.number());
}

template <class T>
bool all_within(const T* indices, int64_t count, int64_t lowest, int64_t highest) {
  T low = std::numeric_limits<T>::max(), high = std::numeric_limits<T>::min();
  for (int64_t i = 0; i < count; ++i) {
    low = std::min(low, indices[i]);
    high = std::max(high, indices[i]);
  }
  return count == 0 || (low >= lowest && high <= highest);
}

bool holds(const IndexCheck::Bounds& bounds, at::ArrayRef<at::Tensor> inputs) {
  const at::Tensor& input = inputs[bounds.indices.input];
  at::Tensor indices = input;
  const bool whole = bounds.indices.offset.number() == 0 && input.is_contiguous() &&
                     input.sizes() == at::IntArrayRef(numbers(bounds.indices.sizes)) &&
                     input.strides() == at::IntArrayRef(numbers(bounds.indices.strides));
  if (!whole) indices = viewed(bounds.indices, inputs).contiguous();
  return AT_DISPATCH_INDEX_TYPES(indices.scalar_type(), "check_indices", [&] {
    return all_within(indices.const_data_ptr<index_t>(), indices.numel(), bounds.lowest.number(),
                      bounds.highest.number());
  });
}

// The operator itself finds what is wrong, in the words of this shape and type.
[[noreturn]] void refuse(const IndexCheck& check, at::ArrayRef<at::Tensor> inputs) {
  torch::jit::Stack stack;
  for (const IndexCheck::Argument& argument : check.arguments) {
    if (argument.is_list) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<InputView>& view : argument.tensors)
        list.push_back(view ? std::optional(viewed(*view, inputs)) : std::nullopt);
      stack.emplace_back(std::move(list));
    } else if (!argument.tensors.empty()) {
      stack.emplace_back(viewed(*argument.tensors[0], inputs));
    } else {
      stack.push_back(argument.constant);
    }
  }
  check.op.callBoxed(stack);
  TORCH_CHECK_INDEX(false, "index out of range in self");
}

}  // namespace

void check_indices(const IndexCheck& check, at::ArrayRef<at::Tensor> inputs) {
  const bool fine = std::all_of(check.bounds.begin(), check.bounds.end(),
                                [&](const IndexCheck::Bounds& bounds) { return holds(bounds, inputs); });
  if (!fine) refuse(check, inputs);
}

}  // namespace firesteel
