// What a graph expects of its inputs, and a person's explanation where they differ.
#pragma once

#include "aot/trace.h"

namespace firesteel {

class Signature {
 public:
  Signature(const Trace& trace, bool with_gradients);

  bool matches(const std::vector<at::Tensor>& inputs) const;
  // Empty where the inputs fit; else which input differs, in what, and both values.
  std::string mismatch(const std::vector<at::Tensor>& inputs) const;

 private:
  struct Expected {
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype;
    c10::Device device;
    bool requires_grad;
    int32_t duplicate_of;
  };
  bool with_gradients_;
  std::vector<Expected> expected_;
};

}  // namespace firesteel
