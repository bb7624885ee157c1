// firesteel::product and batch_product: products of float32 matrices by the library that is faster for the size at
// hand.
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "runtime/fastest.h"
#include "runtime/products/onednn.h"

namespace firesteel {
namespace {

// Multiplications. Below the first, a call of oneDNN costs more by itself than it can gain; from the second on it is
// the one to take, where nothing was measured, on processors that MKL holds back on.
constexpr double kWorthAContest = 1e6, kClearly = 8e6;

// Whether a row lies in one piece, a column, or neither.
int64_t layout_of(const at::Tensor& matrix) { return matrix.stride(-1) == 1 ? 0 : matrix.stride(-2) == 1 ? 1 : 2; }

// `right` with a column of the result for each of its rows.
Contest contest_of(const char* kind, const at::Tensor& left, const at::Tensor& right) {
  const int64_t m = left.size(-2), k = left.size(-1), n = right.size(-2), batch = left.dim() > 2 ? left.size(0) : 1;
  Contest contest{kind,
                  {size_class(batch), size_class(m), size_class(k), size_class(n), layout_of(left), layout_of(right)}};
  contest.work = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  contest.by_rule = contest.work >= kClearly && __builtin_cpu_is("amd");
  contest.work *= static_cast<double>(batch);
  return contest;
}

// left · weightᵀ + bias: the second matrix as Linear has it.
at::Tensor product(const at::Tensor& left, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   std::string_view way) {
  const auto by_aten = [&] { return bias ? at::addmm(*bias, left, weight.t()) : at::mm(left, weight.t()); };
  const auto by_onednn = [&] { return onednn_linear(left, weight, bias); };
  if (!has_onednn() || left.numel() == 0 || weight.numel() == 0) return by_aten();
  if (way == "onednn") return by_onednn();
  Contest contest = contest_of("product", left, weight);
  if (contest.work < kWorthAContest) return by_aten();
  contest.facts.push_back(bias.has_value());
  return run_fastest<at::Tensor>(contest, {by_aten, by_onednn});
}

at::Tensor batch_product(const at::Tensor& left, const at::Tensor& right) {
  const auto by_aten = [&] { return at::bmm(left, right); };
  if (!has_onednn() || left.numel() == 0 || right.numel() == 0) return by_aten();
  const Contest contest = contest_of("batch_product", left, right.transpose(1, 2));
  if (contest.work < kWorthAContest * static_cast<double>(left.size(0))) return by_aten();
  return run_fastest<at::Tensor>(contest, {by_aten, [&] { return onednn_batch_product(left, right); }});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def("product(Tensor left, Tensor weight, Tensor? bias, str way) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(product)));
  library.def("batch_product(Tensor left, Tensor right) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(batch_product)));
}

}  // namespace firesteel
