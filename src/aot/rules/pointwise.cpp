// Shape rules of elementwise operators that have no C++ shape kernel in torch, forward and backward.
#include "aot/rules/rules.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/result_type.h>

namespace firesteel {
namespace {

// What torch's own iterator allocates for these inputs: broadcast sizes, strides in the inputs' order.
at::Tensor elementwise(std::initializer_list<at::Tensor> inputs, at::ScalarType dtype) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).check_all_same_device(false);
  config.add_owned_output(at::Tensor());
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  config.declare_static_dtype_and_device(dtype, at::kMeta);
  return config.build().output();
}

bool like_first(RuleCall& call) {
  call.give(elementwise({call.tensor(0)}, call.tensor(0).scalar_type()));
  return true;
}

bool like_first_two(RuleCall& call) {
  call.give(elementwise({call.tensor(0), call.tensor(1)}, call.tensor(0).scalar_type()));
  return true;
}

bool dropout_backward(RuleCall& call) {
  if (c10::isIntegralType(call.tensor(0).scalar_type(), true)) return false;  // its scale makes them floats
  return like_first_two(call);
}

bool absolute(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  if (self.scalar_type() == at::kBool) return false;
  call.give(elementwise({self}, c10::toRealValueType(self.scalar_type())));
  return true;
}

bool logical_of_one(RuleCall& call) {
  call.give(elementwise({call.tensor(0)}, at::kBool));
  return true;
}

bool logical_of_two(RuleCall& call) {
  call.give(elementwise({call.tensor(0), call.tensor(1)}, at::kBool));
  return true;
}

bool complex_of_two(RuleCall& call) {
  call.give(elementwise({call.tensor(0), call.tensor(1)}, c10::toComplexType(call.tensor(0).scalar_type())));
  return true;
}

// The CPU's kernel works on dense memory whatever it is given, and keeps exponentials that CUDA computes again.
bool log_sigmoid(RuleCall& call) {
  const at::Tensor self = call.tensor(0);
  const bool on_cpu = call.device.is_cpu();
  call.give(on_cpu ? meta_tensor(self.sizes(), self.scalar_type()) : elementwise({self}, self.scalar_type()));
  call.give(on_cpu ? meta_tensor(self.sizes(), self.scalar_type()) : meta_tensor({0}, self.scalar_type()));
  return true;
}

bool where(RuleCall& call) {
  const at::ScalarType dtype = at::result_type(call.tensor(1), call.tensor(2));
  call.give(elementwise({call.tensor(0), call.tensor(1), call.tensor(2)}, dtype));
  return true;
}

bool prelu_backward(RuleCall& call) {
  for (int i = 0; i < 2; ++i) {
    call.give(elementwise({call.tensor(0), call.tensor(1), call.tensor(2)}, call.tensor(0).scalar_type()));
  }
  return true;
}

// A dense tensor of the second argument's sizes.
bool contiguous_like_second(RuleCall& call) {
  call.give(meta_tensor(call.tensor(1).sizes(), call.tensor(1).scalar_type()));
  return true;
}

bool contiguous_like_first(RuleCall& call) {
  call.give(meta_tensor(call.tensor(0).sizes(), call.tensor(0).scalar_type()));
  return true;
}

bool laid_out_as_first(RuleCall& call) {
  call.give(meta_tensor(call.tensor(0).sizes(), call.tensor(0).strides(), call.tensor(0).scalar_type()));
  return true;
}

bool laid_out(RuleCall& call) {
  call.give(meta_tensor(call.tensor(0).sizes(), call.args[1].toIntVector(), call.tensor(0).scalar_type()));
  return true;
}

bool preserving_first(RuleCall& call) {
  call.give(meta_preserving(call.tensor(0), call.tensor(0).scalar_type()));
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::relu", like_first},
    {"aten::hardswish", like_first},
    {"aten::hardtanh", like_first},
    {"aten::hardswish_backward", like_first_two},
    {"aten::hardtanh_backward", like_first_two},
    {"aten::native_dropout_backward", dropout_backward},
    {"aten::_prelu_kernel", like_first_two},
    {"aten::_prelu_kernel_backward", prelu_backward},
    {"aten::where.self", where},
    {"aten::abs", absolute},
    {"aten::logical_not", logical_of_one},
    {"aten::logical_and", logical_of_two},
    {"aten::logical_or", logical_of_two},
    {"aten::logical_xor", logical_of_two},
    {"aten::complex", complex_of_two},
    {"aten::polar", complex_of_two},
    {"aten::log_sigmoid_forward", log_sigmoid},
    {"aten::mse_loss_backward", contiguous_like_second},
    {"aten::glu_backward", contiguous_like_second},
    {"aten::bernoulli.p", contiguous_like_first},
    {"aten::flip", preserving_first},
    {"firesteel::laid_out", laid_out},
    {"firesteel::bernoulli", laid_out_as_first},
    {"firesteel::bernoulli.number", laid_out_as_first},
    {"firesteel::normal", laid_out_as_first},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> pointwise_rules() { return kRules; }

}  // namespace firesteel
