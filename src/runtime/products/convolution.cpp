// firesteel::convolution and its gradients: float32 convolutions of pictures by what is fastest for the size at hand.
//
// ATen decides by a rule when to call oneDNN. Where the kernel is a single point, a convolution is a product of
// matrices: of the weights and, picture by picture, the channels; a stride drops points beforehand.
#include <ATen/ops/add.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/mkldnn_convolution.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "runtime/fastest.h"
#include "runtime/products/onednn.h"

namespace firesteel {
namespace {

using Bias = std::optional<at::Tensor>;
using Sizes = at::IntArrayRef;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool all_are(Sizes sizes, int64_t wanted) {
  return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == wanted; });
}

struct Geometry {
  const at::Tensor &input, &weight;
  Sizes stride, padding, dilation;
  int64_t groups;

  bool is_of_points() const { return weight.size(2) == 1 && weight.size(3) == 1 && groups == 1 && all_are(padding, 0); }
  int64_t batch() const { return input.size(0); }
  int64_t channels() const { return input.size(1); }
  int64_t filters() const { return weight.size(0); }
  int64_t out_size(int64_t dim) const {
    const int64_t reach = dilation[dim] * (weight.size(2 + dim) - 1) + 1;
    return (input.size(2 + dim) + 2 * padding[dim] - reach) / stride[dim] + 1;
  }
  bool has_points() const { return input.numel() > 0 && weight.numel() > 0 && out_size(0) > 0 && out_size(1) > 0; }

  Contest contest(const char* kind) const {
    Contest made{kind, {size_class(batch())}};
    for (int64_t dim : {1, 2, 3}) made.facts.push_back(input.size(dim));
    for (int64_t size : weight.sizes()) made.facts.push_back(size);
    for (Sizes sizes : {stride, padding, dilation}) made.facts.append(sizes.begin(), sizes.end());
    made.facts.push_back(groups);
    made.work = static_cast<double>(batch() * out_size(0) * out_size(1)) * static_cast<double>(weight.numel());
    return made;
  }

  // The points that a kernel of one point looks at: (batch, channels, points).
  at::Tensor points() const {
    at::Tensor seen = input;
    for (int64_t dim : {0, 1}) {
      if (stride[dim] > 1) seen = seen.slice(2 + dim, 0, std::nullopt, stride[dim]);
    }
    return seen.reshape({batch(), channels(), -1});
  }
  at::Tensor weights() const { return weight.reshape({1, filters(), channels()}).expand({batch(), -1, -1}); }
};

at::Tensor by_product(const Geometry& geometry, const Bias& bias) {
  at::Tensor result = onednn_batch_product(geometry.weights(), geometry.points());
  if (bias) result.add_(bias->unsqueeze(1));
  return result.view({geometry.batch(), geometry.filters(), geometry.out_size(0), geometry.out_size(1)});
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const Bias& bias, Sizes stride, Sizes padding,
                       Sizes dilation, int64_t groups) {
  const auto by_aten = [&] {
    return at::convolution(input, weight, bias, stride, padding, dilation, false, {0, 0}, groups);
  };
  const auto by_onednn = [&] {
    return at::mkldnn_convolution(input, weight, bias, padding, stride, dilation, groups).contiguous();
  };
  const Geometry geometry{input, weight, stride, padding, dilation, groups};
  if (!has_onednn() || !input.is_contiguous() || !weight.is_contiguous() || !geometry.has_points()) return by_aten();
  if (!geometry.is_of_points()) return run_fastest<at::Tensor>(geometry.contest("convolution"), {by_aten, by_onednn});
  return run_fastest<at::Tensor>(geometry.contest("convolution"),
                                 {by_aten, by_onednn, [&] { return by_product(geometry, bias); }});
}

// `grad` as (batch, filters, points).
at::Tensor input_gradient(const at::Tensor& grad, const Geometry& geometry) {
  const int64_t batch = geometry.batch(), channels = geometry.channels();
  const at::Tensor points = onednn_batch_product(geometry.weights().transpose(1, 2), grad)
                                .view({batch, channels, geometry.out_size(0), geometry.out_size(1)});
  if (all_are(geometry.stride, 1)) return points;
  at::Tensor whole = at::zeros(geometry.input.sizes(), points.options());
  whole.slice(2, 0, std::nullopt, geometry.stride[0]).slice(3, 0, std::nullopt, geometry.stride[1]).copy_(points);
  return whole;
}

at::Tensor weight_gradient(const at::Tensor& grad, const Geometry& geometry) {
  const at::Tensor points = geometry.points();
  at::Tensor sum = onednn_linear(grad[0], points[0]);
  for (int64_t i = 1; i < geometry.batch(); ++i) sum.add_(onednn_linear(grad[i], points[i]));
  return sum.view(geometry.weight.sizes());
}

Gradients convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                               at::OptionalIntArrayRef bias_sizes, Sizes stride, Sizes padding, Sizes dilation,
                               int64_t groups, std::array<bool, 3> wanted) {
  const auto by_aten = [&](std::array<bool, 3> mask) {
    return at::convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, false, {0, 0}, groups,
                                    mask);
  };
  const Geometry geometry{input, weight, stride, padding, dilation, groups};
  if (!has_onednn() || !input.is_contiguous() || !weight.is_contiguous() || !grad.is_contiguous() ||
      !geometry.has_points() || !geometry.is_of_points())
    return by_aten(wanted);
  const at::Tensor rows = grad.view({geometry.batch(), geometry.filters(), -1});
  const auto by_product = [&](size_t which) {
    return which == 0 ? input_gradient(rows, geometry) : weight_gradient(rows, geometry);
  };
  // Each gradient has a contest of its own; what stays with ATen is one call.
  std::array<bool, 2> ours{};
  for (size_t which : {0, 1}) {
    if (!wanted[which]) continue;
    const Contest contest = geometry.contest(which == 0 ? "convolution_input" : "convolution_weight");
    ours[which] = fastest_way(contest, 2, [&](size_t way) {
      if (way == 0) {
        by_aten({which == 0, which == 1, false});
      } else {
        by_product(which);
      }
    });
  }
  Gradients result;
  const std::array<bool, 3> rest{wanted[0] && !ours[0], wanted[1] && !ours[1], wanted[2]};
  if (rest[0] || rest[1] || rest[2]) result = by_aten(rest);
  if (ours[0]) std::get<0>(result) = by_product(0);
  if (ours[1]) std::get<1>(result) = by_product(1);
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def(
      "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) "
      "-> Tensor",
      torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(convolution)));
  library.def(
      "convolution_backward(Tensor grad, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, int[] padding, "
      "int[] dilation, int groups, bool[3] wanted) -> (Tensor, Tensor, Tensor)",
      torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(convolution_backward)));
}

}  // namespace firesteel
