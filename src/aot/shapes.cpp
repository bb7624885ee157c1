// The four sources of shapes, cheapest first, and the counters that say which was asked.
#include "aot/shapes.h"

#include <atomic>
#include <mutex>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>

#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/ivalue_tensors.h"
#include "aot/shape_rules.h"
#include "aot/size_rules.h"
#include "aot/trace.h"
#include "base/error.h"

namespace firesteel {
namespace {

using c10::IValue;
using torch::jit::Stack;

struct {
  std::atomic<uint64_t> recorded, rule, cpp_meta, python_meta, zero_run;
} g_counters;

std::mutex g_slow_mutex;
std::map<std::string, uint64_t> g_slow;

void count_slow(std::atomic<uint64_t>& counter, const OpPlan& plan) {
  counter.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(g_slow_mutex);
  ++g_slow[toString(plan.op.operator_name())];
}

// The real kernel on zero-filled tensors of the same layout. Only for operators that nothing else knows.
std::vector<IValue> run_on_zeros(const OpPlan& plan, c10::ArrayRef<IValue> args) {
  Stack stack(args.begin(), args.end());
  std::vector<std::pair<at::Tensor, at::Tensor>> zeros;  // zero-filled → the meta it stands for
  for (IValue& arg : stack) {
    map_tensors(arg, [&](const at::Tensor& tensor) -> at::Tensor {
      FakeTensorImpl* fake = as_fake(tensor);
      if (!fake) return tensor;
      at::Tensor zero =
          at::empty_strided(fake->meta().sizes(), fake->meta().strides(), tensor.options().device(fake->device()));
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

// Set while a composite kernel runs on meta tensors: where the real ones live.
thread_local std::optional<c10::Device> t_inferring_for;
thread_local int t_depth = 0;

class InferInnerCalls {
 public:
  explicit InferInnerCalls(c10::Device device)
      : depth_(++t_depth),
        outer_(t_inferring_for),
        keys_(c10::impl::tls_local_dispatch_key_set().included_ | c10::DispatchKeySet(kEntryKey),
              c10::impl::tls_local_dispatch_key_set().excluded_ - c10::DispatchKeySet(kEntryKey)) {
    t_inferring_for = device;
  }
  ~InferInnerCalls() {
    t_inferring_for = outer_;
    --t_depth;
  }
  // Kernels that lead back to themselves on the meta device must not run out of stack.
  bool is_too_deep() const { return depth_ > 16; }

 private:
  int depth_;
  std::optional<c10::Device> outer_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

void call_within(const OpPlan& plan, c10::DispatchKey key, c10::Device device, Stack* stack) {
  InferInnerCalls inner(device);
  TORCH_CHECK_NOT_IMPLEMENTED(!inner.is_too_deep(), plan.op.schema().name(), " has no shape kernel");
  plan.op.callBoxedForDispatchKey(key, *stack);
}

// Meta tensors that torch made of stand-ins with symbols have symbols for sizes too. Shapes are found on tensors with
// the traced call's sizes in their place.
class TracedSizes {
 public:
  explicit TracedSizes(std::vector<IValue>& args) {
    for (IValue& arg : args) {
      map_tensors(arg, [&](const at::Tensor& tensor) -> at::Tensor {
        if (!tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return tensor;
        std::vector<IValue> layout{tensor.sym_sizes(), tensor.sym_strides()};
        put_hints(layout);
        replaced_.emplace_back(meta_tensor(layout[0].toIntVector(), layout[1].toIntVector(), tensor.scalar_type()),
                               tensor);
        return replaced_.back().first;
      });
    }
    put_hints(args);
  }
  void restore(std::vector<IValue>& results) const {
    for (IValue& result : results) {
      map_tensors(result, [&](const at::Tensor& tensor) -> at::Tensor {
        for (const auto& [stand_in, original] : replaced_) {
          if (stand_in.is_same(tensor)) return original;
        }
        return tensor;
      });
    }
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> replaced_;
};

StepAside g_step_aside;

class SteppedAside {
 public:
  SteppedAside() : given_(g_step_aside.begin ? g_step_aside.begin() : nullptr) {}
  ~SteppedAside() {
    if (g_step_aside.end) g_step_aside.end(given_);
  }
  SteppedAside(const SteppedAside&) = delete;
  SteppedAside& operator=(const SteppedAside&) = delete;

 private:
  void* given_;
};

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
      try_kernel([&](Stack* s) { call_within(plan, c10::DispatchKey::CompositeExplicitAutograd, device, s); }, on_meta,
                 stack)) {
    g_counters.cpp_meta.fetch_add(1, std::memory_order_relaxed);
    return stack;
  }
  const SteppedAside aside;
  // Called directly, not dispatched: an inner call would come back here.
  if (plan.has_any_meta &&
      try_kernel([&](Stack* s) { call_within(plan, c10::DispatchKey::Meta, device, s); }, on_meta, stack)) {
    count_slow(g_counters.python_meta, plan);
    return stack;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!is_inferring_shapes(), plan.op.schema().name(), " has no shape kernel");
  count_slow(g_counters.zero_run, plan);
  return run_on_zeros(plan, args);
}

void set_step_aside(StepAside step) { g_step_aside = step; }

bool is_inferring_shapes() { return t_inferring_for.has_value(); }

bool infer_inner_call(const c10::OperatorHandle& op, Stack* stack) {
  // Functionalization runs an operator that writes on meta tensors too, as a check of its own.
  if (!t_inferring_for && !is_tracing()) return false;
  const std::shared_ptr<const OpPlan> found = plan_of(op);
  const OpPlan& plan = *found;
  const size_t base = stack->size() - plan.argument_count;
  c10::ArrayRef<IValue> args(stack->data() + base, plan.argument_count);
  bool on_meta = true, any = false;
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      any = true;
      on_meta = on_meta && (tensor.is_meta() || tensor.unsafeGetTensorImpl()->is_wrapped_number());
    });
    if (arg.isDevice()) on_meta = on_meta && arg.toDevice().is_meta(), any = any || t_inferring_for;
  }
  if (!any || !on_meta || plan.data_dependent) return false;
  if (plan.composite_implicit) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return true;
  }
  // One result counts once: the operators inside a composite one are not recorded.
  std::vector<IValue> given(args.begin(), args.end()), results;
  const TracedSizes traced(given);
  try {
    results = infer_shapes(plan, given, args, t_inferring_for.value_or(c10::kCPU));
  } catch (const c10::NotImplementedError&) {
    return false;
  }
  traced.restore(results);
  g_counters.recorded.fetch_sub(1, std::memory_order_relaxed);
  stack->resize(base);
  for (IValue& result : results) stack->push_back(std::move(result));
  return true;
}

TraceCounters trace_counters() {
  std::lock_guard lock(g_slow_mutex);
  return {g_counters.recorded,    g_counters.rule,     g_counters.cpp_meta,
          g_counters.python_meta, g_counters.zero_run, g_slow};
}

void reset_trace_counters() {
  std::lock_guard lock(g_slow_mutex);
  g_slow.clear();
  g_counters.recorded = g_counters.rule = g_counters.cpp_meta = g_counters.python_meta = g_counters.zero_run = 0;
}

}  // namespace firesteel
