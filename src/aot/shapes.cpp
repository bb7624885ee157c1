// The four sources of shapes, cheapest first, and the counters that say which was asked.
#include "aot/shapes.h"

#include <atomic>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>

#include "aot/fake_tensor.h"
#include "aot/ivalue_tensors.h"
#include "aot/trace.h"
#include "base/error.h"

namespace firesteel {
namespace {

using c10::IValue;
using torch::jit::Stack;

struct {
  std::atomic<uint64_t> recorded, rule, cpp_meta, python_meta, zero_run;
} g_counters;

// The real kernel on zero-filled tensors of the same layout. Only for operators that nothing else knows.
std::vector<IValue> run_on_zeros(const OpPlan& plan, c10::ArrayRef<IValue> args) {
  Stack stack(args.begin(), args.end());
  std::vector<std::pair<at::Tensor, at::Tensor>> zeros;  // zero-filled → the meta it stands for
  for (IValue& arg : stack) {
    map_tensors(arg, [&](const at::Tensor& tensor) -> at::Tensor {
      FakeTensorImpl* fake = as_fake(tensor);
      if (!fake) return tensor;
      at::Tensor zero = at::empty_strided(fake->sizes(), fake->strides(), tensor.options().device(fake->device()));
      zero.zero_();
      zeros.emplace_back(zero, fake->meta());
      return zero;
    });
  }
  plan.op.callBoxed(&stack);
  for (IValue& result : stack) {
    map_tensors(result, [&](const at::Tensor& real) -> at::Tensor {
      for (const auto& [zero, meta] : zeros) {
        if (real.is_same(zero)) return meta;
        if (real.has_storage() && real.is_alias_of(zero)) {
          return meta_view(meta, real.sizes(), real.strides(), meta.storage_offset() + real.storage_offset());
        }
      }
      return meta_like(real);
    });
  }
  return stack;
}

bool try_kernel(const std::function<void(Stack*)>& call, const std::vector<IValue>& on_meta, Stack& stack) {
  stack = on_meta;
  try {
    call(&stack);
    return true;
  } catch (const c10::NotImplementedError&) {
    return false;
  }
}

}  // namespace

std::vector<IValue> infer_shapes(const OpPlan& plan, const std::vector<IValue>& on_meta, c10::ArrayRef<IValue> args,
                                 c10::Device device) {
  g_counters.recorded.fetch_add(1, std::memory_order_relaxed);
  if (plan.rule) {
    RuleCall call{on_meta, device, {}};
    if (plan.rule(call)) {
      g_counters.rule.fetch_add(1, std::memory_order_relaxed);
      return std::move(call.results);
    }
  }
  Stack stack;
  const c10::DispatchKeySet meta_keys(c10::DispatchKey::Meta);
  if (plan.cpp_meta && try_kernel([&](Stack* s) { plan.cpp_meta->callBoxed(plan.op, meta_keys, s); }, on_meta, stack)) {
    g_counters.cpp_meta.fetch_add(1, std::memory_order_relaxed);
    return stack;
  }
  if (plan.composite_explicit &&
      try_kernel([&](Stack* s) { plan.op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *s); }, on_meta,
                 stack)) {
    g_counters.cpp_meta.fetch_add(1, std::memory_order_relaxed);
    return stack;
  }
  if (plan.has_any_meta && try_kernel([&](Stack* s) { plan.op.callBoxed(s); }, on_meta, stack)) {
    g_counters.python_meta.fetch_add(1, std::memory_order_relaxed);
    return stack;
  }
  g_counters.zero_run.fetch_add(1, std::memory_order_relaxed);
  return run_on_zeros(plan, args);
}

TraceCounters trace_counters() {
  return {g_counters.recorded, g_counters.rule, g_counters.cpp_meta, g_counters.python_meta, g_counters.zero_run};
}

void reset_trace_counters() {
  g_counters.recorded = g_counters.rule = g_counters.cpp_meta = g_counters.python_meta = g_counters.zero_run = 0;
}

}  // namespace firesteel
