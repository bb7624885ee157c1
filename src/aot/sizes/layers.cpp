// Sizes of norms, softmax, losses, dropout and their backward.
#include "aot/sizes/sizes.h"

namespace firesteel {
namespace {

// The result, then the mean and the inverse deviation of each row.
bool layer_norm(SizeCall& call) {
  const std::vector<Dim> self = call.sizes(0);
  const size_t inner = call.dims(1).size();
  if (inner > self.size()) return false;
  std::vector<Dim> rows = self;
  for (size_t d = self.size() - inner; d < self.size(); ++d) rows[d] = 1;
  call.give(self);
  call.give(rows);
  call.give(rows);
  return true;
}

// The gradients that were asked for: of the input, and of the weight and the bias, which have the same sizes.
bool norm_backward(SizeCall& call, const c10::List<bool>& wanted, const std::vector<Dim>& weight) {
  if (wanted[0]) call.give(call.sizes(1));
  while (call.layouts.size() < call.results.size()) call.give(weight);
  return true;
}
bool layer_norm_backward(SizeCall& call) { return norm_backward(call, call.args[7].toBoolList(), call.dims(2)); }
bool group_norm_backward(SizeCall& call) { return norm_backward(call, call.args[9].toBoolList(), {call.dim(6)}); }
bool batch_norm_backward(SizeCall& call) {
  return norm_backward(call, call.args[9].toBoolList(), {call.sizes(1).at(1)});
}

// Of [n, c, …]: the rest are vectors of the channels, or empty.
bool batch_norm(SizeCall& call) {
  const std::vector<Dim> self = call.sizes(0);
  if (self.size() < 2 || !self[1].is_number()) return false;
  call.give(self);
  while (call.layouts.size() < call.results.size()) {
    const at::Tensor& traced = call.results[call.layouts.size()];
    std::vector<Dim> sizes(traced.sizes().begin(), traced.sizes().end());
    call.give(std::move(sizes));
  }
  return true;
}

bool group_norm(SizeCall& call) {
  call.give(call.sizes(0));
  for (int i = 0; i < 2; ++i) call.give({call.dim(3), Dim(call.args[6].toInt())});
  return true;
}

// One loss a row where nothing is summed, and the weight of all.
bool nll_loss(SizeCall& call) {
  const std::vector<Dim> self = call.sizes(0), target = call.sizes(1);
  if (self.empty() || self.size() > 2) return false;
  if (self.size() == 2 && !call.equal(self[0], target[0])) return false;
  const bool summed = call.args[3].toInt() != 0;
  call.give(summed || self.size() == 1 ? std::vector<Dim>() : std::vector<Dim>{self[0]});
  call.give({});
  return true;
}

bool nll_loss2d(SizeCall& call) {
  const bool summed = call.args[3].toInt() != 0;
  call.give(summed ? std::vector<Dim>() : call.sizes(1));
  call.give({});
  return true;
}

template <size_t reduction>
bool loss(SizeCall& call) {
  if (call.args[reduction].toInt() != 0) {
    call.give({});
    return true;
  }
  return broadcast_sizes(call);
}

bool glu(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  Dim& size = sizes.at(call.axis(1, static_cast<int64_t>(sizes.size())));
  if (!call.equal(Dim::make(DimOp::Mod, size, 2), 0)) return false;
  size = call.simple(Dim::make(DimOp::FloorDiv, size, 2));
  call.give(std::move(sizes));
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
    {"aten::native_group_norm", group_norm},
    {"aten::native_group_norm_backward", group_norm_backward},
    {"aten::native_batch_norm", batch_norm},
    {"aten::_native_batch_norm_legit", batch_norm},
    {"aten::_native_batch_norm_legit_functional", batch_norm},
    {"aten::_native_batch_norm_legit_no_training", batch_norm},
    {"aten::native_batch_norm_backward", batch_norm_backward},
    {"aten::_softmax", like<0>},
    {"aten::_log_softmax", like<0>},
    {"aten::_softmax_backward_data", like<0>},
    {"aten::_log_softmax_backward_data", like<0>},
    {"aten::_safe_softmax", like<0>},
    {"aten::native_dropout", like<0>},
    {"aten::native_dropout_backward", like<0>},
    {"aten::nll_loss_forward", nll_loss},
    {"aten::nll_loss_backward", like<1>},
    {"aten::nll_loss2d_forward", nll_loss2d},
    {"aten::nll_loss2d_backward", like<1>},
    {"aten::mse_loss", loss<2>},
    {"aten::mse_loss_backward", like<1>},
    {"aten::smooth_l1_loss", loss<2>},
    {"aten::smooth_l1_loss_backward", like<1>},
    {"aten::huber_loss", loss<2>},
    {"aten::huber_loss_backward", like<1>},
    {"aten::binary_cross_entropy", loss<3>},
    {"aten::binary_cross_entropy_backward", like<1>},
    {"aten::glu", glu},
    {"aten::glu_backward", like<1>},
    {"aten::gelu", like<0>},
    {"aten::gelu_backward", like<1>},
    {"aten::silu", like<0>},
    {"aten::silu_backward", like<1>},
    {"aten::relu", like<0>},
    {"aten::hardswish", like<0>},
    {"aten::hardswish_backward", like<1>},
    {"aten::hardtanh", like<0>},
    {"aten::hardtanh_backward", like<1>},
    {"aten::mish", like<0>},
    {"aten::leaky_relu", like<0>},
    {"aten::leaky_relu_backward", broadcast_sizes},
    {"aten::elu", like<0>},
    {"aten::elu_backward", broadcast_sizes},
    {"aten::threshold_backward", broadcast_sizes},
    {"aten::tanh_backward", broadcast_sizes},
    {"aten::sigmoid_backward", broadcast_sizes},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> layer_sizes() { return kRules; }

}  // namespace firesteel
