// Fake tensors: construction, copies and the meta tensors under them.
#include "aot/fake_tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>

#include "aot/dispatch_keys.h"
#include "aot/recorder.h"
#include "base/error.h"

namespace firesteel {

using c10::DispatchKey;
using c10::DispatchKeySet;

// The VIEW constructor takes the key set as it is; the plain one drops autograd keys under inference mode.
FakeTensorImpl::FakeTensorImpl(at::Tensor meta, c10::Device device, DispatchKeySet keys,
                               std::shared_ptr<Recorder> recorder, Value* value)
    : TensorImpl(TensorImpl::VIEW, c10::Storage(meta.storage()), keys, meta.dtype()),
      meta_(std::move(meta)),
      recorder_(std::move(recorder)),
      value_(value) {
  device_opt_ = device;
  refresh();
}

void FakeTensorImpl::refresh() {
  const c10::TensorImpl* meta = meta_.unsafeGetTensorImpl();
  set_sizes_and_strides(meta->sizes(), meta->strides(), meta->storage_offset());
  storage_ = meta->storage();
  data_type_ = meta->dtype();
  if (meta->is_wrapped_number()) set_wrapped_number(true);
  _set_conj(meta->is_conj());
  _set_neg(meta->is_neg());
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::copy(Version&& version, bool allow_change) const {
  auto result = c10::make_intrusive<FakeTensorImpl>(meta_, *device_opt_, key_set_, recorder_, value_);
  copy_tensor_metadata(this, result.get(), std::forward<Version>(version), allow_change);
  result->constant_ = constant_;
  result->take_layout(*this);
  return result;
}

c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                            bool allow_change) const {
  return copy(version, allow_change);
}
c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                            bool allow_change) const {
  return copy(std::move(version), allow_change);
}

void FakeTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  auto* other = dynamic_cast<FakeTensorImpl*>(impl.get());
  FS_REQUIRE(other, MutationError, "a traced tensor cannot take over the data of a tensor that is not traced");
  copy_tensor_metadata(other, this, version_counter(), allow_tensor_metadata_change());
  meta_ = other->meta_;
  value_ = other->value_;
  constant_ = other->constant_;
  take_layout(*other);
}

FakeTensorImpl* as_fake(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->key_set().has(kFakeKey)) return nullptr;
  return dynamic_cast<FakeTensorImpl*>(tensor.unsafeGetTensorImpl());
}

FakeTensorImpl* as_fake_inside(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (at::functionalization::impl::isFunctionalTensor(tensor)) {
    return as_fake(at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->value());
  }
  return as_fake(tensor);
}

at::Tensor make_fake(at::Tensor meta, c10::Device device, std::shared_ptr<Recorder> recorder, Value* value) {
  DispatchKeySet keys =
      DispatchKeySet(c10::computeDispatchKey(std::nullopt, std::nullopt, device)) | DispatchKeySet(kFakeKey);
  const c10::BackendComponent backend = keys.highestBackendKey();
  keys = keys | c10::getAutocastRelatedKeySetFromBackend(backend);
  if (!meta.is_inference()) {
    keys = keys | c10::getAutogradRelatedKeySetFromBackend(backend) | DispatchKeySet(DispatchKey::ADInplaceOrView);
  }
  return at::detail::make_tensor<FakeTensorImpl>(std::move(meta), device, keys, std::move(recorder), value);
}

at::Tensor meta_like(const at::Tensor& real) {
  const c10::TensorImpl* impl = real.unsafeGetTensorImpl();
  // The storage must be as large as the real one: as_strided on an input may reach past the input's own elements.
  int64_t elements = 0;
  if (impl->has_storage()) elements = static_cast<int64_t>(real.storage().nbytes() / real.dtype().itemsize());
  at::Tensor meta = at::detail::empty_strided_meta({elements}, {1}, real.scalar_type());
  c10::TensorImpl* meta_impl = meta.unsafeGetTensorImpl();
  meta_impl->set_sizes_and_strides(real.sizes(), real.strides(), impl->has_storage() ? real.storage_offset() : 0);
  if (impl->is_wrapped_number()) meta_impl->set_wrapped_number(true);
  if (impl->is_conj()) meta_impl->_set_conj(true);
  if (impl->is_neg()) meta_impl->_set_neg(true);
  return meta;
}

SymbolicLayout layout_of(const at::Tensor& tensor) {
  if (FakeTensorImpl* fake = as_fake_inside(tensor); fake && fake->layout()) return *fake->layout();
  const at::Tensor& plain = traced_meta(tensor);
  return {{plain.sizes().begin(), plain.sizes().end()},
          {plain.strides().begin(), plain.strides().end()},
          plain.storage_offset()};
}

const at::Tensor& traced_meta(const at::Tensor& tensor) {
  FakeTensorImpl* fake = as_fake_inside(tensor);
  return fake ? fake->meta() : tensor;
}

c10::SymInt sym_int_for(const at::Tensor& tensor, const Dim& dim) {
  FakeTensorImpl* fake = as_fake_inside(tensor);
  return fake ? fake->recorder().symbols->sym_int(dim) : c10::SymInt(dim.number());
}

Type type_of(const at::Tensor& tensor) {
  SymbolicLayout layout = layout_of(tensor);
  return Type::tensor(tensor.scalar_type(), tensor.device(), std::move(layout.sizes), std::move(layout.strides));
}

}  // namespace firesteel
