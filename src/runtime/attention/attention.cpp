// firesteel::attention: what ATen's attention for the CPU gives, by code of ours where that is faster.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "runtime/attention/rows.h"
#include "runtime/fastest.h"

namespace firesteel::attention {
namespace {

constexpr int64_t kWidthStep = 16;      // lanes of the widest vectors
constexpr double kWorthAContest = 1e6;  // multiplications

Rows best_rows() {
  const char* set = std::getenv("FIRESTEEL_CPU");
  const std::string_view asked = set ? set : "";
  if (asked == "sse") return rows_sse;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  if (avx512 && asked != "avx2") return rows_avx512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? rows_avx2 : rows_sse;
}

bool is_dense_rows(const at::Tensor& tensor) {
  return tensor.dim() == 4 && tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() && tensor.stride(3) == 1;
}

bool fits(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout,
          const std::optional<at::Tensor>& mask) {
  if (dropout != 0 || !is_dense_rows(query) || !is_dense_rows(key) || !is_dense_rows(value)) return false;
  const int64_t heads = query.size(1), width = query.size(3), keys = key.size(2);
  if (width % kWidthStep != 0 || width != value.size(3) || width != key.size(3) || value.size(2) != keys) return false;
  if (key.size(1) != heads || value.size(1) != heads || key.size(0) != query.size(0) || value.size(0) != query.size(0))
    return false;
  if (keys == 0) return false;
  if (!mask || !mask->defined()) return true;
  if (mask->scalar_type() != at::kFloat || mask->dim() != 4 || mask->requires_grad()) return false;
  const int64_t wanted[] = {query.size(0), heads, query.size(2), keys};
  for (int64_t d = 0; d < 4; ++d) {
    if (mask->size(d) != wanted[d] && mask->size(d) != 1) return false;
  }
  return true;
}

int64_t step_of(const at::Tensor& mask, int64_t dim) { return mask.size(dim) == 1 ? 0 : mask.stride(dim); }

using Attended = std::tuple<at::Tensor, at::Tensor>;

Attended by_rows(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                 const std::optional<at::Tensor>& mask, std::optional<double> scale) {
  static const Rows rows = best_rows();
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2), width = query.size(3);
  at::Tensor out = at::empty_like(query);
  at::Tensor logs = at::empty({batch, queries, heads}, query.options()).transpose(1, 2);
  Head first{};
  first.query_stride = query.stride(2), first.key_stride = key.stride(2), first.value_stride = value.stride(2);
  first.out_stride = out.stride(2), first.log_stride = logs.stride(2);
  first.query_count = queries, first.key_count = key.size(2), first.width = width;
  first.scale = static_cast<float>(scale.value_or(1 / std::sqrt(static_cast<double>(width))));
  first.causal = causal;
  const bool masked = mask && mask->defined();
  if (masked) first.mask_row = step_of(*mask, 2), first.mask_column = step_of(*mask, 3);
  // A thread takes a stretch of all heads' rows, so that few heads serve many threads, too.
  const int64_t chunk = (queries + kRows - 1) / kRows;
  at::parallel_for(0, batch * heads * chunk, std::max<int64_t>(1, 32768 / (key.size(2) * width / kRows + 1)),
                   [&](int64_t begin, int64_t end) {
                     const at::Tensor room =
                         at::empty({room_for(first.key_count, width)}, at::TensorOptions(at::kFloat));
                     Head head = first;
                     head.room = room.mutable_data_ptr<float>();
                     for (int64_t at = begin; at < end;) {
                       const int64_t which = at / chunk, b = which / heads, h = which % heads;
                       const int64_t last = std::min(end, (which + 1) * chunk);
                       head.queries = query.const_data_ptr<float>() + b * query.stride(0) + h * query.stride(1);
                       head.keys = key.const_data_ptr<float>() + b * key.stride(0) + h * key.stride(1);
                       head.values = value.const_data_ptr<float>() + b * value.stride(0) + h * value.stride(1);
                       head.out = out.mutable_data_ptr<float>() + b * out.stride(0) + h * out.stride(1);
                       head.logs = logs.mutable_data_ptr<float>() + b * logs.stride(0) + h * logs.stride(1);
                       if (masked)
                         head.mask = mask->const_data_ptr<float>() + b * step_of(*mask, 0) + h * step_of(*mask, 1);
                       rows(head, (at - which * chunk) * kRows, std::min(queries, (last - which * chunk) * kRows));
                       at = last;
                     }
                   });
  return {std::move(out), std::move(logs)};
}

Attended attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout, bool causal,
                const std::optional<at::Tensor>& mask, std::optional<double> scale) {
  if (query.numel() == 0)
    return {at::empty_like(query),
            at::empty({query.size(0), query.size(2), query.size(1)}, query.options()).transpose(1, 2)};
  const auto by_aten = [&] {
    return at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale);
  };
  if (!fits(query, key, value, dropout, mask)) return by_aten();
  const auto by_ours = [&] { return by_rows(query, key, value, causal, mask, scale); };
  const int64_t heads = query.size(0) * query.size(1), queries = query.size(2), keys = key.size(2),
                width = query.size(3);
  Contest contest{"attention", {size_class(heads), size_class(queries), size_class(keys), width, causal}};
  contest.facts.push_back(mask && mask->defined());
  contest.work = 2.0 * static_cast<double>(heads * queries) * static_cast<double>(keys * width);
  if (contest.work < kWorthAContest) return by_ours();
  return run_fastest<Attended>(contest, {by_ours, by_aten});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, "
      "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
      torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(attend)));
}

}  // namespace firesteel::attention
