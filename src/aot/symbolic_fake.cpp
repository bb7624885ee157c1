// Fake tensors whose sizes are symbols: what they answer to those who ask for expressions, and to those who want
// numbers.
#include <algorithm>
#include <numeric>

#include "aot/fake_tensor.h"
#include "aot/recorder.h"
#include "aot/symbolic_layouts.h"
#include "aot/symbols.h"

namespace firesteel {

bool SymbolicLayout::is_symbolic() const {
  auto symbolic = [](const Dim& dim) { return !dim.is_number(); };
  return std::any_of(sizes.begin(), sizes.end(), symbolic) || std::any_of(strides.begin(), strides.end(), symbolic) ||
         symbolic(offset);
}

Symbols& FakeTensorImpl::symbols() const { return *recorder_->symbols; }

void FakeTensorImpl::set_layout(SymbolicLayout layout) {
  if (!layout.is_symbolic()) return;
  auto sym_ints = [&](const std::vector<Dim>& dims) {
    std::vector<c10::SymInt> sizes;
    sizes.reserve(dims.size());
    for (const Dim& dim : dims) sizes.push_back(symbols().sym_int(dim));
    return sizes;
  };
  sym_sizes_ = sym_ints(layout.sizes);
  sym_strides_ = sym_ints(layout.strides);
  sym_offset_ = symbols().sym_int(layout.offset);
  layout_ = std::make_shared<const SymbolicLayout>(std::move(layout));
  // torch asks the tensor, or what it has stored there.
  set_sizes_and_strides(c10::SymIntArrayRef(sym_sizes_), c10::SymIntArrayRef(sym_strides_), sym_offset_);
  set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
}

void FakeTensorImpl::take_layout(const FakeTensorImpl& other) {
  layout_ = other.layout_;
  sym_sizes_ = other.sym_sizes_;
  sym_strides_ = other.sym_strides_;
  sym_offset_ = other.sym_offset_;
  if (layout_) set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
}

c10::IntArrayRef FakeTensorImpl::sizes_custom() const {
  for (const Dim& size : layout_->sizes) symbols().specialise(size);
  return meta_.sizes();
}

int64_t FakeTensorImpl::size_custom(int64_t dim) const {
  return symbols().specialise(layout_->sizes[c10::maybe_wrap_dim(dim, dim_default(), false)]);
}

c10::IntArrayRef FakeTensorImpl::strides_custom() const {
  for (const Dim& stride : layout_->strides) symbols().specialise(stride);
  return meta_.strides();
}

int64_t FakeTensorImpl::numel_custom() const { return symbols().specialise(elements(layout_->sizes)); }
int64_t FakeTensorImpl::storage_offset_custom() const { return symbols().specialise(layout_->offset); }
c10::SymInt FakeTensorImpl::sym_numel_custom() const { return symbols().sym_int(elements(layout_->sizes)); }

c10::SymBool FakeTensorImpl::sym_is_contiguous_custom(at::MemoryFormat format) const {
  return firesteel::is_contiguous(symbols(), *layout_, format);
}

c10::SymBool FakeTensorImpl::sym_is_non_overlapping_and_dense_custom() const { return is_dense(symbols(), *layout_); }

// Asked where torch looks for channels-last.
bool FakeTensorImpl::is_strides_like_custom(at::MemoryFormat format) const {
  const bool wanted = format == at::MemoryFormat::ChannelsLast     ? layout_->sizes.size() == 4
                      : format == at::MemoryFormat::ChannelsLast3d ? layout_->sizes.size() == 5
                                                                   : false;
  if (!wanted) return false;
  // Which dimension lies inside which decides: the same for all sizes in most cases.
  keep_order(symbols(), *layout_);
  return meta_.unsafeGetTensorImpl()->is_strides_like(format);
}

}  // namespace firesteel
