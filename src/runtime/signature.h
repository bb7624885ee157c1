// What a graph expects of its inputs, and a person's explanation where they differ.
#pragma once

#include <unordered_set>

#include "aot/trace.h"
#include "shapes/open_sizes.h"

namespace firesteel {

using TensorSet = std::unordered_set<const c10::TensorImpl*>;

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

  // The values of the trace's symbols for these inputs, which match.
  SymbolValues symbols(const std::vector<at::Tensor>& inputs) const;

  // The captured tensors, in the order of the graph's inputs: undefined where one was let go and is gone.
  std::vector<at::Tensor> captured() const;
  // The same as matches(), for one who has the captured tensors, and has looked at those that were let go himself.
  bool matches(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& captured) const;
  // From now on these captured tensors live as long as others hold them; after that nothing matches any more.
  void let_go(const TensorSet& tensors);

 private:
  struct Layout {
    std::vector<int64_t> sizes, strides;  // kOpen where it follows from the symbols
    std::vector<Dim> open;                // those that do, sizes and strides in turn
    std::optional<OpenSizes> open_sizes;
    at::ScalarType dtype;
    c10::Device device;
    bool requires_grad;
    bool is_written = false;  // by the graph

    explicit Layout(const Type& type);
    // The sizes and strides for these symbols.
    std::pair<std::vector<int64_t>, std::vector<int64_t>> wanted(const SymbolValues& symbols) const;
    bool fits(const at::Tensor& tensor, const SymbolValues& symbols) const;
    // The first fact that differs, or an empty string. `name`: "input 2".
    std::string difference(const std::string& name, const at::Tensor& tensor, const SymbolValues& symbols) const;
  };
  struct Captured {
    at::Tensor tensor;  // undefined where it was let go
    WeakTensor weak;
    Layout layout;
  };
  using Tensors = std::vector<at::Tensor>;

  // Each false where the inputs break what the graph takes for granted.
  bool captured_fits(size_t index, const at::Tensor& tensor, bool exactly) const;
  bool all_captured_fit(const Tensors& captured, bool exactly) const;
  bool gradients_fit(const Tensors& inputs, bool exactly) const;
  bool memory_fits(const Tensors& inputs, const Tensors& captured, bool exactly) const;

  std::string memory_mismatch(const Tensors& inputs, const Tensors& captured, bool exactly) const;
  std::string gradient_mismatch(const Tensors& inputs, bool exactly) const;
  std::string captured_mismatch(const Tensors& captured, bool exactly) const;
  bool would_lose_gradient(const at::Tensor& tensor, const Layout& layout) const;

  // Nothing where a symbol has no value: too few inputs or dimensions.
  std::optional<SymbolValues> find_symbols(const Tensors& inputs) const;
  // The first bound or guard of the sizes that does not hold, in words; empty where all do.
  std::string size_mismatch(const SymbolValues& symbols) const;
  bool sizes_fit(const SymbolValues& symbols) const;

  std::vector<SymbolOrigin> symbols_;
  std::optional<RelationProgram> guards_;
  bool with_gradients_;
  bool writes_;  // the graph changes some input: then what shared no memory must not share any now
  std::vector<Layout> layouts_;
  std::vector<ArgumentFacts> facts_;
  std::vector<Captured> captured_;
};

}  // namespace firesteel
