// Runs kernels: buffers, threads, and the way out where a tensor is not laid out as recorded.
#include "runtime/kernel_call.h"

#include <algorithm>
#include <memory>

#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>

#include "runtime/buffer_pool.h"
#include "runtime/index_check.h"

namespace firesteel {
namespace {

// ATen gives a thread this many elements of one operation; more work an element is worth a thread earlier.
int64_t grain_of(const LoopKernel& kernel) {
  constexpr int64_t kSimpleGrain = 32768, kSmallestGrain = 2048;
  const auto work = static_cast<int64_t>(kernel.exprs.size()) / 8 + kernel.transcendentals();
  return std::max(kSimpleGrain / (1 + work), kSmallestGrain);
}

}  // namespace

KernelCall::Number KernelCall::number_of(const Dim& dim) {
  if (dim.is_number()) return {dim.number(), -1};
  auto found = std::find(dims_.begin(), dims_.end(), dim);
  if (found == dims_.end()) found = dims_.insert(dims_.end(), dim);
  return {0, static_cast<int32_t>(found - dims_.begin())};
}

std::vector<KernelCall::Number> KernelCall::numbers_of(const std::vector<Dim>& dims) {
  std::vector<Number> numbers;
  for (const Dim& dim : dims) numbers.push_back(number_of(dim));
  return numbers;
}

KernelCall::Layout KernelCall::layout_of(const Value* value) {
  return {value->type.dtype, numbers_of(value->type.sizes), numbers_of(value->type.strides)};
}

KernelCall::KernelCall(const FusedGroup& group, KernelFunction function)
    : function_(function),
      checks_(group.checks),
      row_loops_(group.kernel.row_loops()),
      grain_points_(grain_of(group.kernel)) {
  for (const Value* value : group.inputs) tensors_.push_back(layout_of(value));
  for (const Value* value : group.outputs) tensors_.push_back(layout_of(value));
  for (IndexCheck& check : checks_) check.each_dim([&](Dim& dim) { check_numbers_.push_back(number_of(dim)); });
  loops_ = numbers_of(group.kernel.sizes);
  given_ = numbers_of(group.kernel.given);
  if (group.kernel.reduced) {
    plan_.emplace(group.kernel);
    if (!group.kernel.row_length().is_number()) kept_a_point_ = plan_->kept_bytes_a_point(group.kernel);
  }
  if (dims_.empty()) {
    fixed_ = sizes_for({});
  } else {
    open_.emplace(dims_);
  }
  dims_.clear();
}

KernelCall::Sizes KernelCall::sizes_for(std::span<const int64_t> open) const {
  auto value = [&](const Number& number) { return number.open < 0 ? number.value : open[number.open]; };
  Sizes made;
  for (const Layout& layout : tensors_) {
    Sizes::Tensor& tensor = made.tensors.emplace_back();
    for (const Number& size : layout.sizes) tensor.sizes.push_back(value(size));
    for (const Number& stride : layout.strides) tensor.strides.push_back(value(stride));
  }
  if (!open.empty() && !checks_.empty()) {
    made.checks = checks_;
    size_t next = 0;
    for (IndexCheck& check : made.checks) check.each_dim([&](Dim& dim) { dim = value(check_numbers_[next++]); });
  }
  for (const Number& number : given_) made.given.push_back(value(number));
  int64_t rows = 1, length = 1;
  for (size_t d = 0; d < loops_.size(); ++d) (d < row_loops_ ? rows : length) *= value(loops_[d]);
  made.units = rows;
  made.grain = std::max<int64_t>(grain_points_ / std::max<int64_t>(length, 1), 1);
  made.kept_bytes = kept_a_point_ * length;
  if (!plan_) return made;
  const Chunks chunks = chunks_of(*plan_, rows, length, value(loops_[row_loops_]));
  if (chunks.count) {
    made.units = chunks.count;
    made.grain = 1;
    made.chunk_slots = chunks.count * static_cast<int64_t>(plan_->reduction_count) * rows;
  }
  if (plan_->cut == RowPlan::Cut::AsCalled) {
    made.given.push_back(chunks.steps);
    made.given.push_back(chunks.count);
  }
  return made;
}

bool KernelCall::fits(const at::Tensor& tensor, at::ScalarType dtype, const Sizes::Tensor& layout) {
  return tensor.scalar_type() == dtype && tensor.sizes() == at::IntArrayRef(layout.sizes) &&
         tensor.strides() == at::IntArrayRef(layout.strides) && tensor.is_cpu() && !tensor.is_neg() &&
         !tensor._is_zerotensor();
}

void KernelCall::run(std::span<const at::Tensor* const> inputs, std::span<at::Tensor> outputs,
                     std::span<const int64_t> symbols) const {
  if (fixed_) return run(inputs, outputs, *fixed_);
  run(inputs, outputs, sizes_for(open_->run(symbols)));
}

void KernelCall::run(std::span<const at::Tensor* const> inputs, std::span<at::Tensor> outputs,
                     const Sizes& sizes) const {
  c10::SmallVector<void*, 16> buffers;
  c10::SmallVector<at::Tensor, 2> copies;  // of inputs that came in another layout
  c10::SmallVector<at::Tensor, 8> read;    // kept where indices are to be looked at
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* tensor = inputs[i];
    const Sizes::Tensor& layout = sizes.tensors[i];
    if (!fits(*tensor, tensors_[i].dtype, layout)) {
      at::Tensor copy = at::empty_strided(layout.sizes, layout.strides, at::TensorOptions(tensors_[i].dtype));
      copies.push_back(copy.copy_(*tensor));
      tensor = &copies.back();
    }
    buffers.push_back(const_cast<void*>(tensor->const_data_ptr()));
    if (may_refuse()) read.push_back(*tensor);
  }
  for (const IndexCheck& check : sizes.checks.empty() ? checks_ : sizes.checks) check_indices(check, read);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Sizes::Tensor& layout = sizes.tensors[inputs.size() + i];
    const at::ScalarType dtype = tensors_[inputs.size() + i].dtype;
    if (!outputs[i].defined() || !fits(outputs[i], dtype, layout))
      outputs[i] = pooled_tensor(layout.sizes, layout.strides, dtype);
    buffers.push_back(outputs[i].mutable_data_ptr());
  }
  if (sizes.units == 0) return;
  if (!given_.empty()) buffers.push_back(const_cast<int64_t*>(sizes.given.data()));
  c10::SmallVector<int64_t, 256> chunks(sizes.chunk_slots);
  if (plan_ && plan_->chunks()) buffers.push_back(chunks.data());
  const size_t kept = buffers.size();
  if (sizes.kept_bytes) buffers.push_back(nullptr);
  run_units(buffers.data(), kept, sizes);
  if (sizes.chunk_slots) function_(buffers.data(), -1, 0);
}

// `kept`: the place of the memory for a row's values, of which each thread has its own.
void KernelCall::run_units(void** buffers, size_t kept, const Sizes& sizes) const {
  auto run_range = [&](int64_t begin, int64_t end) {
    if (!sizes.kept_bytes) return function_(buffers, begin, end);
    // A vector that lies across two lines of the cache takes twice as long. The last one may reach past the row's end.
    constexpr size_t kLine = 64;
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(sizes.kept_bytes) + 2 * kLine);
    const auto start = reinterpret_cast<uintptr_t>(memory.get());
    c10::SmallVector<void*, 16> own(buffers, buffers + kept);
    own.push_back(memory.get() + (kLine - start % kLine) % kLine);
    function_(own.data(), begin, end);
  };
  if (sizes.units <= sizes.grain) {
    run_range(0, sizes.units);
  } else {
    at::parallel_for(0, sizes.units, sizes.grain, run_range);
  }
}

}  // namespace firesteel
