// A tensor without data that stands for a value of a graph being recorded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include "graph/graph.h"

namespace firesteel {

class Recorder;
class Symbols;

// Sizes of which some are symbols, as expressions.
struct SymbolicLayout {
  std::vector<Dim> sizes, strides;
  Dim offset = 0;

  bool is_symbolic() const;
};

// Its sizes, strides and storage are those of a meta tensor, so views really share storage and aliasing can be seen;
// its device is the real one. It keeps its recorder alive, so that using it after the trace can be explained.
//
// Where sizes are symbols the meta tensor has those of the traced call. Whoever asks for the symbolic sizes gets them;
// whoever asks for numbers gets the traced call's, and the graph holds for these alone.
class FakeTensorImpl final : public c10::TensorImpl {
 public:
  FakeTensorImpl(at::Tensor meta, c10::Device device, c10::DispatchKeySet keys, std::shared_ptr<Recorder> recorder,
                 Value* value);

  const at::Tensor& meta() const { return meta_; }
  Value* value() const { return value_; }
  void set_value(Value* value) { value_ = value; }
  Recorder& recorder() const { return *recorder_; }
  const std::shared_ptr<Recorder>& recorder_ptr() const { return recorder_; }

  // A constant made inside the traced function (`torch.tensor([1, 2])`): its data may be read while tracing.
  const at::Tensor& constant() const { return constant_; }
  void set_constant(at::Tensor constant) { constant_ = std::move(constant); }

  // Null where all sizes are numbers.
  const SymbolicLayout* layout() const { return layout_.get(); }
  void set_layout(SymbolicLayout layout);

  // Takes over sizes, strides and storage after the meta tensor was changed in place.
  void refresh();

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;

  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t size_custom(int64_t dim) const override;
  int64_t dim_custom() const override { return dim_default(); }
  int64_t numel_custom() const override;
  int64_t storage_offset_custom() const override;
  c10::SymIntArrayRef sym_sizes_custom() const override { return sym_sizes_; }
  c10::SymIntArrayRef sym_strides_custom() const override { return sym_strides_; }
  c10::SymInt sym_numel_custom() const override;
  c10::SymInt sym_storage_offset_custom() const override { return sym_offset_; }
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;
  bool is_strides_like_custom(at::MemoryFormat format) const override;

 private:
  Symbols& symbols() const;
  void take_layout(const FakeTensorImpl& other);

  template <class Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool allow_change) const;
  const char* tensorimpl_type_name() const override { return "FakeTensorImpl"; }

  at::Tensor meta_;
  std::shared_ptr<Recorder> recorder_;
  Value* value_;
  at::Tensor constant_;
  std::shared_ptr<const SymbolicLayout> layout_;
  std::vector<c10::SymInt> sym_sizes_, sym_strides_;
  c10::SymInt sym_offset_;
};

// Null where the tensor is not one of ours. A functional wrapper carries the Fake key too: look at the type.
FakeTensorImpl* as_fake(const at::Tensor& tensor);
// Looks through a functional wrapper.
FakeTensorImpl* as_fake_inside(const at::Tensor& tensor);

at::Tensor make_fake(at::Tensor meta, c10::Device device, std::shared_ptr<Recorder> recorder, Value* value);

// A meta tensor with the layout, wrapped-number mark and conjugate bits of a real one; its storage is as large.
at::Tensor meta_like(const at::Tensor& real);

// The sizes and strides of any tensor of a trace.
SymbolicLayout layout_of(const at::Tensor& tensor);
// With the sizes that it has in the traced call; unlike sizes(), looking at these decides nothing.
const at::Tensor& traced_meta(const at::Tensor& tensor);
inline at::IntArrayRef traced_sizes(const at::Tensor& tensor) { return traced_meta(tensor).sizes(); }
// A size of the trace that the tensor belongs to.
c10::SymInt sym_int_for(const at::Tensor& tensor, const Dim& dim);

// What the graph knows of a fake or real tensor.
FIRESTEEL_API Type type_of(const at::Tensor& tensor);

}  // namespace firesteel
