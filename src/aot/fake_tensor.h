// A tensor without data that stands for a value of a graph being recorded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include "graph/graph.h"

namespace firesteel {

class Recorder;

// Its sizes, strides and storage are those of a meta tensor, so views really share storage and aliasing can be seen;
// its device is the real one. It keeps its recorder alive, so that using it after the trace can be explained.
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

  // Takes over sizes, strides and storage after the meta tensor was changed in place.
  void refresh();

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;

 private:
  template <class Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool allow_change) const;
  const char* tensorimpl_type_name() const override { return "FakeTensorImpl"; }

  at::Tensor meta_;
  std::shared_ptr<Recorder> recorder_;
  Value* value_;
  at::Tensor constant_;
};

// Null where the tensor is not one of ours. A functional wrapper carries the Fake key too: look at the type.
FakeTensorImpl* as_fake(const at::Tensor& tensor);
// Looks through a functional wrapper.
FakeTensorImpl* as_fake_inside(const at::Tensor& tensor);

at::Tensor make_fake(at::Tensor meta, c10::Device device, std::shared_ptr<Recorder> recorder, Value* value);

// A meta tensor with the layout, wrapped-number mark and conjugate bits of a real one; its storage is as large.
at::Tensor meta_like(const at::Tensor& real);

// What the graph knows of a fake or real tensor.
Type type_of(const at::Tensor& tensor);

}  // namespace firesteel
