// What a graph expects of its inputs, and a person's explanation where they differ.
#pragma once

#include "aot/trace.h"

namespace firesteel {

class FIRESTEEL_API Signature {
 public:
  Signature(const Trace& trace, bool with_gradients);

  // Whether the graph gives eager's answer for these inputs.
  bool matches(const std::vector<at::Tensor>& inputs) const;
  // Whether they are as in the trace in everything that tracing looks at: also in what this graph happens not to need.
  bool matches_exactly(const std::vector<at::Tensor>& inputs) const;
  // Empty where `matches` or, if `exactly`, `matches_exactly` holds; else which input differs, in what, and both
  // values.
  std::string mismatch(const std::vector<at::Tensor>& inputs, bool exactly = false) const;

 private:
  struct Layout {
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype;
    c10::Device device;
    bool requires_grad;
    bool is_written = false;  // by the graph

    explicit Layout(const Type& type);
    bool fits(const at::Tensor& tensor) const;
    // The first fact that differs, or an empty string. `name`: "input 2".
    std::string difference(const std::string& name, const at::Tensor& tensor) const;
  };
  struct Captured {
    at::Tensor tensor;
    Layout layout;
  };

  // Each false where the inputs break what the graph takes for granted.
  bool captured_fit(bool exactly) const;
  bool gradients_fit(const std::vector<at::Tensor>& inputs, bool exactly) const;
  bool memory_fits(const std::vector<at::Tensor>& inputs, bool exactly) const;

  std::string memory_mismatch(const std::vector<at::Tensor>& inputs, bool exactly) const;
  std::string gradient_mismatch(const std::vector<at::Tensor>& inputs, bool exactly) const;
  std::string captured_mismatch(bool exactly) const;
  bool would_lose_gradient(const at::Tensor& tensor, const Layout& layout) const;

  bool with_gradients_;
  bool writes_;  // the graph changes some input: then what shared no memory must not share any now
  std::vector<Layout> layouts_;
  std::vector<ArgumentFacts> facts_;
  std::vector<Captured> captured_;
};

}  // namespace firesteel
