// Functional forms of operators that write to their arguments without saying so, or that torch does not know.
#include "aot/functional_ops.h"

#include <mutex>
#include <unordered_set>

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/one_hot_ops.h>
#include <ATen/ops/polygamma.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/ivalue_tensors.h"

namespace firesteel {
namespace {

namespace functional = at::functionalization::impl;
using torch::jit::Stack;

std::optional<at::Tensor> unwrap(const std::optional<at::Tensor>& tensor) {
  if (!tensor || !tensor->defined()) return std::nullopt;
  if (!functional::isFunctionalTensor(*tensor)) return tensor;
  functional::sync(*tensor);
  return functional::from_functional_tensor(*tensor);
}

void write_back(const at::Tensor& wrapper, const at::Tensor& value) {
  functional::replace_(wrapper, value);
  functional::commit_update(wrapper);
  functional::sync(wrapper);
}

// native_batch_norm's schema does not say that it updates the running statistics in training.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                          const std::optional<at::Tensor>& weight,
                                                          const std::optional<at::Tensor>& bias,
                                                          const std::optional<at::Tensor>& running_mean,
                                                          const std::optional<at::Tensor>& running_var, bool training,
                                                          double momentum, double eps) {
  const auto x = *unwrap(input);
  const auto w = unwrap(weight), b = unwrap(bias), mean = unwrap(running_mean), var = unwrap(running_var);
  at::Tensor out, save_mean, save_invstd;
  {
    at::AutoDispatchSkipFunctionalize guard;
    if (training && mean && var && functional::isFunctionalTensor(*running_mean)) {
      at::Tensor new_mean, new_var;
      std::tie(out, save_mean, save_invstd, new_mean, new_var) =
          at::_native_batch_norm_legit_functional(x, w, b, *mean, *var, training, momentum, eps);
      write_back(*running_mean, new_mean);
      write_back(*running_var, new_var);
    } else {
      std::tie(out, save_mean, save_invstd) = at::native_batch_norm(x, w, b, mean, var, training, momentum, eps);
    }
  }
  return {functional::to_functional_tensor(out), functional::to_functional_tensor(save_mean),
          functional::to_functional_tensor(save_invstd)};
}

// A custom operator that writes: it gets copies of what it writes to, and the copies become the new values.
void custom_op_on_copies(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const std::shared_ptr<const OpPlan> found = plan_of(op);
  const OpPlan& plan = *found;
  const size_t base = stack->size() - plan.argument_count;
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // wrapper → copy
  for (size_t i = 0; i < plan.argument_count; ++i) {
    const bool writes =
        std::find(plan.written_arguments.begin(), plan.written_arguments.end(), i) != plan.written_arguments.end();
    map_tensors((*stack)[base + i], [&](const at::Tensor& tensor) -> at::Tensor {
      if (!functional::isFunctionalTensor(tensor)) return tensor;
      at::Tensor value = *unwrap(tensor);
      if (!writes) return value;
      at::AutoDispatchSkipFunctionalize guard;
      written.emplace_back(tensor, at::clone(value));
      return written.back().second;
    });
  }
  {
    at::AutoDispatchSkipFunctionalize guard;
    op.callBoxed(stack);
  }
  for (auto& [wrapper, copy] : written) write_back(wrapper, copy);
  for (c10::IValue& result : *stack) {
    map_tensors(result, [&](const at::Tensor& tensor) -> at::Tensor {
      for (auto& [wrapper, copy] : written) {
        if (tensor.is_same(copy)) return wrapper;
      }
      return functional::to_functional_tensor(tensor);
    });
  }
}

struct CustomForms {
  std::mutex mutex;
  std::unordered_set<c10::OperatorHandle> known;
  std::vector<c10::RegistrationHandleRAII> registrations;
};
CustomForms& custom_forms() {
  static auto* forms = new CustomForms;  // the dispatcher may be gone first
  return *forms;
}

}  // namespace

void forget_custom_forms() {
  CustomForms& forms = custom_forms();
  std::lock_guard lock(forms.mutex);
  forms.registrations.clear();
  forms.known.clear();
}

void functionalize_custom_op(const OpPlan& plan) {
  auto& [mutex, known, registrations] = custom_forms();
  const std::string_view name = plan.op.schema().name();
  if (name.substr(0, 6) == "aten::") return;
  std::lock_guard lock(mutex);
  if (!known.insert(plan.op).second || plan.op.hasKernelForDispatchKey(c10::DispatchKey::Functionalize)) return;
  registrations.push_back(c10::Dispatcher::singleton().registerImpl(
      plan.op.operator_name(), c10::DispatchKey::Functionalize,
      c10::KernelFunction::makeFromBoxedFunction<&custom_op_on_copies>(), std::nullopt, nullptr, "firesteel"));
}

namespace {

// one_hot looks at the data to check it. With the number of classes given, scatter says the same where a class is too
// large.
at::Tensor one_hot(c10::DispatchKeySet keys, const at::Tensor& self, int64_t num_classes) {
  if (num_classes < 1 || traced_meta(self).numel() == 0 || self.scalar_type() != at::kLong) {
    return at::_ops::one_hot::redispatch(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kEntryKey), self,
                                         num_classes);
  }
  std::vector<c10::SymInt> sizes = self.sym_sizes().vec();
  sizes.emplace_back(num_classes);
  return at::zeros_symint(sizes, self.options()).scatter(-1, self.unsqueeze(-1), 1);
}

// Torch has no such form of it.
at::Tensor& polygamma_(at::Tensor& self, int64_t order) { return self.copy_(at::polygamma(order, self)); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, DeferredInit, library) { library.impl("one_hot", TORCH_FN(one_hot)); }

TORCH_LIBRARY_IMPL(aten, Functionalize, library) {
  library.impl("native_batch_norm", TORCH_FN(batch_norm));
  library.impl("polygamma_", TORCH_FN(polygamma_));
}

}  // namespace firesteel
