// What a compiled entry takes for granted about a tensor, read straight from its TensorImpl.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "graph/type.h"
#include "guards/size_mark_facts.h"

namespace firesteel::guards {

struct TensorFacts {
  c10::DispatchKeySet keys;
  at::ScalarType dtype;
  c10::Device device;
  bool requires_grad;
  bool is_leaf;  // decides whether autograd allows writes
  int64_t storage_offset;
  c10::SmallVector<int64_t, 5> sizes, strides;  // kOpen where any is allowed
  bool is_open = false;                         // one of them is
  SizeMarkFacts marks;                          // of the tensor's Python object, which match() does not know

  static constexpr int64_t kOpen = INT64_MIN;
  explicit TensorFacts(const at::Tensor& tensor);
  // Sizes and strides that are symbols may be any.
  void open(const Type& type);
  // The dimensions in which the sizes differ, where nothing else does but the strides that follow from them. `loosely`:
  // whatever else differs; all of them where there are more or fewer.
  std::vector<int32_t> other_sizes(const at::Tensor& tensor, bool loosely) const;
  bool match(const at::Tensor& tensor) const;
  // `size is [3, 4], was [2, 4]`; empty where nothing differs.
  std::string difference(const at::Tensor& tensor) const;
  // `Float[3, 4] cpu`, with strides where they are not those of a dense tensor, and `grad`.
  std::string str() const;
};

// A dense tensor with memory of its own, not part of a trace or of another transform.
bool is_plain_real(const at::Tensor& tensor);

}  // namespace firesteel::guards
