// The gradient of an embedding table, in memory of the pool.
#include <cstring>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "runtime/buffer_pool.h"

namespace firesteel {
namespace {

constexpr int64_t kPointsAThread = 1 << 16;

// Rows of one index are added in the order of the indices, as eager does: each thread owns a range of the table.
template <class T>
void add_rows(const at::Tensor& rows, const at::Tensor& indices, int64_t padding, at::Tensor& table) {
  const int64_t width = table.size(1), count = indices.numel();
  const int64_t* index = indices.const_data_ptr<int64_t>();
  const T* from = rows.const_data_ptr<T>();
  T* to = table.mutable_data_ptr<T>();
  const int64_t grain = std::max<int64_t>(1, kPointsAThread / std::max<int64_t>(1, width));
  at::parallel_for(0, table.size(0), grain, [&](int64_t begin, int64_t end) {
    std::memset(to + begin * width, 0, static_cast<size_t>((end - begin) * width) * sizeof(T));
    for (int64_t i = 0; i < count; ++i) {
      if (index[i] == padding || index[i] < begin || index[i] >= end) continue;
      T* row = to + index[i] * width;
      for (int64_t d = 0; d < width; ++d) row[d] += from[i * width + d];
    }
  });
}

at::Tensor table_gradient(const at::Tensor& grad, const at::Tensor& indices, int64_t table_rows, int64_t padding) {
  const int64_t width = grad.size(-1);
  const at::Tensor flat = indices.to(at::kLong).reshape(-1).contiguous();
  const at::Tensor rows = grad.contiguous();
  at::Tensor table = pooled_tensor({table_rows, width}, {width, 1}, grad.scalar_type());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, grad.scalar_type(), "table_gradient",
                                 [&] { add_rows<scalar_t>(rows, flat, padding, table); });
  return table;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def("table_gradient(Tensor grad, Tensor indices, int table_rows, int padding) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(table_gradient)));
}

}  // namespace firesteel
