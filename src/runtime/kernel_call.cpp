// Runs kernels: buffers, threads, and the way out where a tensor is not laid out as recorded.
#include "runtime/kernel_call.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>

#include "fuse/operand.h"
#include "fuse/row_plan.h"
#include "runtime/buffer_pool.h"
#include "runtime/index_check.h"

namespace firesteel {
namespace {

// ATen gives a thread this many elements of one operation; more work an element is worth a thread earlier.
constexpr int64_t kSimpleGrain = 32768, kSmallestGrain = 2048;

// In points, or in rows where there are any.
int64_t grain_of(const LoopKernel& kernel) {
  const auto work = static_cast<int64_t>(kernel.exprs.size()) / 8 + kernel.transcendentals();
  const int64_t points = std::max(kSimpleGrain / (1 + work), kSmallestGrain);
  return std::max<int64_t>(points / kernel.row_length(), 1);
}

}  // namespace

KernelCall::Layout KernelCall::layout_of(const Value* value) {
  return {value->type.dtype, *numbers(value->type.sizes), *numbers(value->type.strides)};
}

KernelCall::KernelCall(const FusedGroup& group, KernelFunction function)
    : function_(function), checks_(group.checks), units_(group.kernel.rows()), grain_(grain_of(group.kernel)) {
  if (group.kernel.reduced) {
    const RowPlan plan(group.kernel);
    chunk_slots_ = plan.chunk_slots(group.kernel);
    if (plan.chunks) {
      units_ = plan.chunks;
      grain_ = 1;
    }
  }
  for (const Value* value : group.inputs) inputs_.push_back(layout_of(value));
  for (const Value* value : group.outputs) outputs_.push_back(layout_of(value));
}

bool KernelCall::fits(const at::Tensor& tensor, const Layout& layout) {
  return tensor.scalar_type() == layout.dtype && tensor.sizes() == at::IntArrayRef(layout.sizes) &&
         tensor.strides() == at::IntArrayRef(layout.strides) && tensor.is_cpu() && !tensor.is_neg() &&
         !tensor._is_zerotensor();
}

void KernelCall::run(std::span<const at::Tensor* const> inputs, std::span<at::Tensor> outputs) const {
  c10::SmallVector<void*, 16> buffers;
  c10::SmallVector<at::Tensor, 2> copies;  // of inputs that came in another layout
  c10::SmallVector<at::Tensor, 8> read;    // kept where indices are to be looked at
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* tensor = inputs[i];
    if (!fits(*tensor, inputs_[i])) {
      at::Tensor copy = at::empty_strided(inputs_[i].sizes, inputs_[i].strides, at::TensorOptions(inputs_[i].dtype));
      copies.push_back(copy.copy_(*tensor));
      tensor = &copies.back();
    }
    buffers.push_back(const_cast<void*>(tensor->const_data_ptr()));
    if (may_refuse()) read.push_back(*tensor);
  }
  for (const IndexCheck& check : checks_) check_indices(check, read);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !fits(outputs[i], outputs_[i]))
      outputs[i] = pooled_tensor(outputs_[i].sizes, outputs_[i].strides, outputs_[i].dtype);
    buffers.push_back(outputs[i].mutable_data_ptr());
  }
  if (units_ == 0) return;
  c10::SmallVector<int64_t, 256> chunks(chunk_slots_);
  if (chunk_slots_) buffers.push_back(chunks.data());
  if (units_ <= grain_) {
    function_(buffers.data(), 0, units_);
  } else {
    at::parallel_for(0, units_, grain_, [&](int64_t begin, int64_t end) { function_(buffers.data(), begin, end); });
  }
  if (chunk_slots_) function_(buffers.data(), -1, 0);
}

}  // namespace firesteel
