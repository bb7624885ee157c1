// Calls mkldnn::_linear_pointwise.
#include "runtime/products/onednn.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include "runtime/run_counters.h"

namespace firesteel {
namespace {

using Scalars = c10::List<std::optional<at::Scalar>>;
using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                          Scalars, std::optional<std::string_view>);

const std::optional<c10::OperatorHandle>& found_linear() {
  static const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  return found;
}

}  // namespace

bool has_onednn() { return found_linear() && at::globalContext().userEnabledMkldnn(); }

at::Tensor onednn_linear(const at::Tensor& left, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  static const auto linear = found_linear()->typed<Linear>();
  static const Scalars no_scalars;
  count_onednn_product();
  return linear.call(left, weight, bias, "none", no_scalars, "");
}

at::Tensor onednn_batch_product(const at::Tensor& left, const at::Tensor& right) {
  if (left.size(0) == 1) return onednn_linear(left[0], right[0].t()).unsqueeze(0);
  at::Tensor result = at::empty({left.size(0), left.size(1), right.size(2)}, left.options());
  for (int64_t i = 0; i < left.size(0); ++i) result[i].copy_(onednn_linear(left[i], right[i].t()));
  return result;
}

}  // namespace firesteel
