// The kernel behind every operator on fake tensors: finds the results' shapes and records a node.
#include <ATen/FunctionalTensorWrapper.h>
#include <torch/library.h>

#include "aot/constant_values.h"
#include "aot/data_ops.h"
#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/ivalue_tensors.h"
#include "aot/recorder.h"
#include "aot/shapes.h"
#include "aot/size_rules.h"
#include "base/error.h"

namespace firesteel {
namespace {

using c10::IValue;
using torch::jit::Stack;

struct ArgumentSummary {
  Recorder* recorder = nullptr;
  bool fake = false, real = false, meta = false;
  std::optional<c10::Device> device;
  bool device_from_cpu_scalar = false;
  std::optional<c10::Device> asked_device;
};

ArgumentSummary summarize(const OpPlan& plan, c10::ArrayRef<IValue> args) {
  ArgumentSummary sum;
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      FakeTensorImpl* fake = as_fake(tensor);
      if (!fake) {
        (tensor.is_meta() ? sum.meta : sum.real) = true;
        return;
      }
      sum.fake = true;
      sum.recorder = &fake->recorder();
      // A CPU scalar goes along with tensors of any device.
      const c10::Device device = fake->device();
      if (!sum.device || (sum.device_from_cpu_scalar && !device.is_cpu())) {
        sum.device = device;
        sum.device_from_cpu_scalar = fake->dim() == 0 && device.is_cpu();
      }
    });
    if (arg.isDevice()) sum.asked_device = arg.toDevice();
  }
  return sum;
}

// True where the call has nothing to do with the trace: torch's own reference computations on meta tensors, a factory
// that fills its result through a pointer (`torch.tensor(data)` hides Python while it does), operators on real tensors
// only.
bool concerns_no_fake(const OpPlan& plan, const ArgumentSummary& sum) {
  if (sum.asked_device && sum.asked_device->is_meta()) return true;
  if (sum.meta || sum.real) return true;
  if (plan.device_argument < 0) return true;
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::Python);
}

bool holds_functional(c10::ArrayRef<IValue> args) {
  bool found = false;
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      found = found || at::functionalization::impl::isFunctionalTensor(tensor);
    });
  }
  return found;
}

// A class with `__torch_dispatch__` calls operators on the parts of its tensors: torch has hidden all that lies above
// the class, functionalization too.
void call_from_the_top(const c10::OperatorHandle& op, Stack* stack) {
  const c10::impl::LocalDispatchKeySet state = c10::impl::tls_local_dispatch_key_set();
  const c10::DispatchKeySet shown({kEntryKey, c10::DispatchKey::Functionalize});
  c10::impl::ForceDispatchKeyGuard guard(state.included_, state.excluded_ - shown);
  op.callBoxed(stack);
}

void run_outside(const OpPlan& plan, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard guard(kFakeKey);
  plan.op.callBoxed(stack);
}

// Constants made inside the function may be read, and what follows from them: `torch.tensor(3).item()`.
bool read_constant(const OpPlan& plan, Stack* stack, size_t base) {
  std::vector<at::Tensor> constants;
  for (size_t i = base; i < stack->size(); ++i) {
    bool known = true;
    each_tensor((*stack)[i], [&](const at::Tensor& tensor) {
      FakeTensorImpl* fake = as_fake(tensor);
      if (!known || !fake) return void(known = false);
      constants.push_back(fake->constant().defined() ? fake->constant()
                                                     : constant_value(fake->recorder(), fake->value()));
      known = constants.back().defined();
    });
    if (!known) return false;
  }
  OutsideTrace outside;
  size_t next = 0;
  for (size_t i = base; i < stack->size(); ++i) {
    map_tensors((*stack)[i], [&](const at::Tensor&) { return constants[next++]; });
  }
  plan.op.callBoxed(stack);
  return true;
}

// Wraps one result: an argument that came back is the argument's own fake, anything else a new value of the node.
class ResultWrapper {
 public:
  // `layouts`: of the results, where sizes are symbols; else empty.
  ResultWrapper(Recorder& recorder, Node* node, c10::Device device,
                const std::vector<std::pair<at::Tensor, at::Tensor>>& metas, std::vector<SymbolicLayout> layouts)
      : recorder_(recorder), node_(node), device_(device), metas_(metas), layouts_(std::move(layouts)) {}

  void wrap(IValue& result) {
    if (result.isTensorList() || result.isOptionalTensorList()) {
      const size_t before = node_->outputs.size();
      map_tensors(result, [&](const at::Tensor& meta) { return wrap(meta); });
      node_->returns.push_back({static_cast<int32_t>(node_->outputs.size() - before)});
      return;
    }
    if (result.isTensor() && result.toTensor().defined()) {
      result = wrap(result.toTensor());
    } else {
      node_->add_output(result.isInt()      ? Type::scalar(ValueKind::Int)
                        : result.isDouble() ? Type::scalar(ValueKind::Float)
                        : result.isBool()   ? Type::scalar(ValueKind::Bool)
                                            : Type::none());
    }
    node_->returns.push_back({});
  }

 private:
  at::Tensor wrap(const at::Tensor& meta) {
    at::Tensor fake;
    for (const auto& [argument_meta, argument] : metas_) {
      if (argument_meta.is_same(meta)) fake = argument;
    }
    if (!fake.defined()) {
      fake = make_fake(meta, device_, recorder_.shared_from_this(), nullptr);
      if (!layouts_.empty()) as_fake(fake)->set_layout(layouts_.at(next_));
    }
    ++next_;
    Value* value = recorder_.add_value(node_, fake);
    if (FakeTensorImpl* impl = as_fake(fake)) impl->set_value(value);
    return fake;
  }

  Recorder& recorder_;
  Node* node_;
  c10::Device device_;
  const std::vector<std::pair<at::Tensor, at::Tensor>>& metas_;
  std::vector<SymbolicLayout> layouts_;
  size_t next_ = 0;
};

// True where the arguments that are no tensors, and the results' sizes and types, are those of the recorded draw.
bool same_draw(Recorder& recorder, const Node& drawn, c10::ArrayRef<IValue> args, std::vector<IValue>& results,
               const std::vector<SymbolicLayout>& layouts) {
  auto same_item = [](const Arg& a, const Arg& b) {
    return a.kind == b.kind && a.dim == b.dim && (a.kind != Arg::Kind::Const || a.constant == b.constant);
  };
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].isTensor() || args[i].isGenerator()) continue;
    const Arg now = recorder.arg_of(args[i]);
    const Arg& then = drawn.args.at(i);
    if (!same_item(now, then) ||
        !std::equal(now.items.begin(), now.items.end(), then.items.begin(), then.items.end(), same_item)) {
      return false;
    }
  }
  size_t next = 0;
  bool same = true;
  for (IValue& result : results) {
    each_tensor(result, [&](const at::Tensor& meta) {
      same = same && next < drawn.outputs.size() &&
             drawn.outputs[next]->type.sizes == (layouts.empty() ? type_of(meta).sizes : layouts[next].sizes) &&
             drawn.outputs[next]->type.dtype == meta.scalar_type();
      ++next;
    });
  }
  return same;
}

// A backward pass that draws again from where the forward pass drew gets the value drawn then (activation
// checkpointing).
void repeat_draw(Recorder& recorder, Node* drawn, std::vector<IValue>& results, c10::Device device,
                 const std::vector<SymbolicLayout>& layouts) {
  size_t next = 0;
  for (IValue& result : results) {
    map_tensors(result, [&](const at::Tensor& meta) {
      at::Tensor fake = make_fake(meta, device, recorder.shared_from_this(), drawn->outputs.at(next).get());
      if (!layouts.empty()) as_fake(fake)->set_layout(layouts[next]);
      ++next;
      return fake;
    });
  }
}

// An operator that decomposes, met below functionalization: its parts may write to tensors they make, so they are
// functionalized in turn, on wrappers of their own.
void decompose(const c10::OperatorHandle& op, Stack* stack, size_t base) {
  namespace functional = at::functionalization::impl;
  std::vector<std::pair<at::Tensor, at::Tensor>> wrapped;  // fake, wrapper
  for (size_t i = base; i < stack->size(); ++i) {
    map_tensors((*stack)[i], [&](const at::Tensor& tensor) -> at::Tensor {
      if (!as_fake(tensor)) return tensor;
      for (const auto& [fake, wrapper] : wrapped) {
        if (fake.is_same(tensor)) return wrapper;
      }
      return wrapped.emplace_back(tensor, functional::to_functional_tensor(tensor)).second;
    });
  }
  {
    const auto local = c10::impl::tls_local_dispatch_key_set();
    const c10::DispatchKeySet functionalize(c10::DispatchKey::Functionalize);
    c10::impl::ForceDispatchKeyGuard guard(local.included_ | functionalize, local.excluded_ - functionalize);
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  }
  for (const auto& [fake, wrapper] : wrapped) {
    functional::sync(wrapper);
    const at::Tensor now = functional::from_functional_tensor(wrapper);
    if (!now.is_same(fake)) fake.unsafeGetTensorImpl()->shallow_copy_from(now.getIntrusivePtr());
  }
  for (size_t i = base; i < stack->size(); ++i) {
    map_tensors((*stack)[i], [&](const at::Tensor& tensor) -> at::Tensor {
      if (!functional::isFunctionalTensor(tensor)) return tensor;
      for (const auto& [fake, wrapper] : wrapped) {
        if (wrapper.is_same(tensor)) return fake;
      }
      functional::sync(tensor);
      return functional::from_functional_tensor(tensor);
    });
  }
}

void fake_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const std::shared_ptr<const OpPlan> found = plan_of(op);
  const OpPlan& plan = *found;
  const size_t base = stack->size() - plan.argument_count;
  c10::ArrayRef<IValue> args(stack->data() + base, plan.argument_count);
  const ArgumentSummary sum = summarize(plan, args);

  if (sum.real && holds_functional(args)) return call_from_the_top(op, stack);
  Recorder* recorder = sum.recorder ? sum.recorder : Recorder::current();
  if (sum.fake) {
    FS_REQUIRE(recorder->active(), EscapedTensorError,
               "this tensor belongs to the trace of `{}`, which has ended: it has no data\n"
               "  `{}` was called on it\n"
               "  try: return it from the traced function instead of storing it away",
               recorder->graph.name, op.schema().name());
  } else if (!recorder || !recorder->active() || concerns_no_fake(plan, sum)) {
    return run_outside(plan, stack);
  }
  if (plan.composite_implicit) return decompose(op, stack, base);
  const c10::Device device = sum.asked_device.value_or(sum.device.value_or(c10::Device(c10::kCPU)));
  if (plan.is_of_user && record_user_op(plan, *recorder, stack, base, device)) return;
  if (plan.depends_on_data(args)) {
    if (read_constant(plan, stack, base)) return;
    if (record_data_op(plan, *recorder, stack, base)) return;
    recorder->fail_data_dependent(op.schema().name());
  }

  // Arguments on the meta device, and the fake each one stands for.
  std::vector<std::pair<at::Tensor, at::Tensor>> metas;
  std::vector<IValue> on_meta(args.begin(), args.end());
  std::vector<IValue> results;
  std::vector<SymbolicLayout> layouts;
  Node* drawn = nullptr;
  at::Generator generator;
  {
    OutsideTrace outside;
    for (IValue& arg : on_meta) {
      map_tensors(arg, [&](const at::Tensor& tensor) -> at::Tensor {
        FakeTensorImpl* fake = as_fake(tensor);
        if (!fake && (tensor.is_meta() || tensor.unsafeGetTensorImpl()->is_wrapped_number())) return tensor;
        at::Tensor meta = fake ? fake->meta() : meta_like(tensor);
        metas.emplace_back(meta, tensor);
        return meta;
      });
    }
    const bool moves_device = plan.device_argument >= 0 && (sum.asked_device || !sum.fake);
    if (moves_device) on_meta[plan.device_argument] = c10::Device(c10::kMeta);
    const bool symbolic = !recorder->symbols->empty() && has_symbols(args);
    if (symbolic) put_hints(on_meta);
    results = infer_shapes(plan, on_meta, args, device);
    if (symbolic) layouts = symbolic_results(plan, args, results, *recorder->symbols);
    if (plan.is_random) {
      generator = generator_for(args, device);
      if (recorder->phase == Phase::Backward) drawn = recorder->random_states.earlier_draw(generator, op);
      if (drawn && !same_draw(*recorder, *drawn, args, results, layouts)) drawn = nullptr;
      if (!drawn) recorder->note_seeding(generator);
    }
  }
  if (drawn) {
    repeat_draw(*recorder, drawn, results, device, layouts);
    recorder->random_states.advance(generator, op, nullptr);
  } else {
    Node* node = recorder->add_node(plan, args);
    for (uint8_t i : plan.written_arguments) {
      each_tensor(args[i], [](const at::Tensor& tensor) {
        if (FakeTensorImpl* fake = as_fake(tensor)) fake->refresh();
      });
    }
    ResultWrapper wrapper(*recorder, node, device, metas, std::move(layouts));
    for (IValue& result : results) wrapper.wrap(result);
    if (plan.is_random) recorder->random_states.advance(generator, op, node);
  }
  stack->resize(base);
  for (IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&fake_kernel>()); }

}  // namespace firesteel
