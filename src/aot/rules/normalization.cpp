// Shape rules of layer norm, group norm and batch norm, forward and backward.
#include "aot/rules/rules.h"

namespace firesteel {
namespace {

at::ScalarType statistics_dtype(const RuleCall& call, const at::Tensor& input) {
  // The CPU keeps the input's type unless the affine parameters are wider; CUDA accumulates in float.
  if (!call.device.is_cpu() && (input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16))
    return at::kFloat;
  return input.scalar_type();
}

// Wider affine parameters make the CPU keep its statistics in float.
at::ScalarType mixed_statistics(const RuleCall& call, const at::Tensor& input, size_t weight) {
  if (call.device.is_cpu() && call.has_tensor(weight) && call.tensor(weight).scalar_type() != input.scalar_type())
    return at::kFloat;
  return statistics_dtype(call, input);
}

bool layer_norm(RuleCall& call) {
  const at::Tensor x = call.tensor(0);
  const int64_t kept = x.dim() - static_cast<int64_t>(call.args[1].toIntVector().size());
  if (kept < 0) return false;
  std::vector<int64_t> stats = x.sizes().vec();
  for (size_t d = kept; d < stats.size(); ++d) stats[d] = 1;
  const at::ScalarType dtype = mixed_statistics(call, x, 2);
  call.give(meta_tensor(x.sizes(), x.scalar_type()));
  call.give(meta_tensor(stats, dtype));
  call.give(meta_tensor(stats, dtype));
  return true;
}

// Gradients of input, weight and bias, each where the mask asks for it: `like` gives the argument each one is like.
void give_gradients(RuleCall& call, size_t mask, std::array<size_t, 3> like, std::array<at::MemoryFormat, 3> formats) {
  const auto wanted = call.args[mask].toBoolList();
  for (size_t i = 0; i < 3; ++i) {
    if (wanted.get(i) && call.has_tensor(like[i])) {
      const at::Tensor model = call.tensor(like[i]);
      call.give(meta_tensor(model.sizes(), model.scalar_type(), formats[i]));
    } else {
      call.give({});
    }
  }
}

constexpr at::MemoryFormat kDense = at::MemoryFormat::Contiguous;

bool layer_norm_backward(RuleCall& call) {
  give_gradients(call, 7, {1, 5, 6}, {kDense, kDense, kDense});
  return true;
}

bool group_norm(RuleCall& call) {
  const at::Tensor x = call.tensor(0);
  const at::ScalarType dtype = mixed_statistics(call, x, 1);
  const int64_t batch = call.args[3].toInt(), groups = call.args[6].toInt();
  call.give(meta_tensor(x.sizes(), x.scalar_type(), x.suggest_memory_format()));
  call.give(meta_tensor({batch, groups}, dtype));
  call.give(meta_tensor({batch, groups}, dtype));
  return true;
}

bool group_norm_backward(RuleCall& call) {
  const at::Tensor x = call.tensor(1);
  const auto wanted = call.args[9].toBoolList();
  call.give(wanted.get(0) ? meta_tensor(x.sizes(), x.scalar_type(), x.suggest_memory_format()) : at::Tensor());
  for (size_t i = 1; i < 3; ++i) {
    const at::ScalarType dtype = call.has_tensor(4) ? call.tensor(4).scalar_type() : x.scalar_type();
    call.give(wanted.get(i) ? meta_tensor({call.args[6].toInt()}, dtype) : at::Tensor());
  }
  return true;
}

// Output and statistics; of weight, bias and running statistics, the arguments 1 to `parameters`, the first counts.
bool give_batch_norm(RuleCall& call, bool training, size_t parameters) {
  const at::Tensor x = call.tensor(0);
  if (!call.device.is_cpu() || x.dim() < 2) return false;
  size_t first = 1;
  while (first < parameters && !call.has_tensor(first)) ++first;
  const at::ScalarType dtype = mixed_statistics(call, x, first);
  call.give(meta_tensor(x.sizes(), x.scalar_type(), x.suggest_memory_format()));
  for (int i = 0; i < 2; ++i) call.give(meta_tensor({training ? x.size(1) : 0}, dtype));
  return true;
}

bool batch_norm(RuleCall& call) { return give_batch_norm(call, call.args[5].toBool(), 4); }

bool batch_norm_without_statistics(RuleCall& call) { return give_batch_norm(call, call.args[3].toBool(), 2); }

// In training, with a place for what a kernel of another device may keep.
bool updating_batch_norm(RuleCall& call) {
  if (!give_batch_norm(call, /*training=*/true, 4)) return false;
  call.give(meta_tensor({0}, at::kByte));
  return true;
}

bool functional_updating_batch_norm(RuleCall& call) {
  if (!updating_batch_norm(call)) return false;
  for (size_t i = 3; i < 5; ++i) call.give(meta_preserving(call.tensor(i), call.tensor(i).scalar_type()));
  return true;
}

// The same with the running statistics after it as two more results.
bool functional_batch_norm(RuleCall& call) {
  if (!call.has_tensor(3) || !call.has_tensor(4) || !batch_norm(call)) return false;
  for (size_t i = 3; i < 5; ++i) call.give(meta_preserving(call.tensor(i), call.tensor(i).scalar_type()));
  return true;
}

bool batch_norm_backward(RuleCall& call) {
  const at::Tensor x = call.tensor(1);
  if (!call.device.is_cpu() || x.dim() < 2) return false;
  const auto wanted = call.args[9].toBoolList();
  const at::ScalarType dtype = call.has_tensor(2) ? call.tensor(2).scalar_type() : x.scalar_type();
  call.give(wanted.get(0) ? meta_tensor(x.sizes(), x.scalar_type(), x.suggest_memory_format()) : at::Tensor());
  for (size_t i = 1; i < 3; ++i) call.give(wanted.get(i) ? meta_tensor({x.size(1)}, dtype) : at::Tensor());
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
    {"aten::native_group_norm", group_norm},
    {"aten::native_group_norm_backward", group_norm_backward},
    {"aten::native_batch_norm", batch_norm},
    {"aten::_native_batch_norm_legit", batch_norm},
    {"aten::_native_batch_norm_legit.no_stats", batch_norm_without_statistics},
    {"aten::_native_batch_norm_legit_functional", functional_batch_norm},
    {"aten::_batch_norm_with_update", updating_batch_norm},
    {"aten::_batch_norm_with_update_functional", functional_updating_batch_norm},
    {"aten::native_batch_norm_backward", batch_norm_backward},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> normalization_rules() { return kRules; }

}  // namespace firesteel
