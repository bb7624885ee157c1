// The first kernel every operator meets while tracing: see entry_kernel.h.
#include "aot/entry_kernel.h"
#include "base/error.h"

#include <algorithm>
#include <atomic>
#include <compare>

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/functional_ops.h"
#include "aot/inner_nodes.h"
#include "aot/ivalue_tensors.h"
#include "aot/recorder.h"
#include "aot/shapes.h"
#include "aot/size_node.h"
#include "aot/written_layouts.h"

namespace firesteel {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

std::atomic<InnerNode> g_inner_node{nullptr};

// Tensors that are already part of a trace or of another transform (vmap, a dispatch mode), or that carry no data.
const DispatchKeySet kNotPlain({DispatchKey::Functionalize, kFakeKey, DispatchKey::Python,
                                DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper});

bool is_plain_real(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return !impl->key_set().has_any(kNotPlain) && !impl->is_meta() && !impl->is_wrapped_number();
}

bool holds_plain_real(c10::ArrayRef<IValue> args) {
  bool found = false;
  for (const IValue& arg : args)
    each_tensor(arg, [&](const at::Tensor& tensor) { found = found || is_plain_real(tensor); });
  return found;
}

// A tensor of a class with `__torch_dispatch__`.
bool holds_wrapper(c10::ArrayRef<IValue> args) {
  bool found = false;
  for (const IValue& arg : args) {
    each_tensor(arg, [&](const at::Tensor& tensor) { found = found || tensor.key_set().has(DispatchKey::Python); });
  }
  return found;
}

// `torch.tensor(data)` and its like make a real tensor, fill it through a pointer and then announce it with lift_fresh.
bool is_filling_real_tensor() { return c10::impl::tls_local_dispatch_key_set().excluded_.has(DispatchKey::Python); }

void run_for_real(const c10::OperatorHandle& op, Recorder& recorder, Stack* stack) {
  OutsideTrace outside;
  op.callBoxed(stack);
  for (const IValue& result : *stack) {
    each_tensor(result, [&](const at::Tensor& tensor) {
      if (tensor.has_storage()) recorder.born_inside(tensor);
    });
  }
}

// An operator that changes a list of tensors changes one that stands there twice by turns; functionalization would lose
// the first change.
void refuse_written_twice(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> args) {
  struct Memory {
    const void* storage;
    int64_t begin, end;
    auto operator<=>(const Memory&) const = default;
  };
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite() || !args[i].isTensorList()) continue;
    std::vector<Memory> written;
    for (const at::Tensor& given : args[i].toTensorVector()) {
      if (!given.defined() || !given.has_storage()) continue;
      const at::Tensor& tensor = traced_meta(given);
      if (tensor.numel() == 0) continue;
      int64_t last = tensor.storage_offset();
      for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
      written.push_back({given.storage().unsafeGetStorageImpl(), tensor.storage_offset(), last + 1});
    }
    std::sort(written.begin(), written.end());
    for (size_t k = 1; k < written.size(); ++k) {
      FS_REQUIRE(written[k].storage != written[k - 1].storage || written[k].begin >= written[k - 1].end, MutationError,
                 "`{}` changes tensors that share memory\n  try: call it for each of them", schema.name());
    }
  }
}

// `out=` gives a tensor of the wrong size other memory. Views of it that the trace knows would then lie nowhere.
class OutSizes {
 public:
  OutSizes(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> args) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (!schema.arguments()[i].is_out() || !args[i].isTensor() || !args[i].toTensor().defined()) continue;
      const at::Tensor& out = args[i].toTensor();
      if (traced_meta(out).numel() > 0) before_.emplace_back(out, layout_of(out).sizes);
    }
  }
  void refuse_resized() const {
    for (const auto& [out, sizes] : before_) {
      FS_REQUIRE(layout_of(out).sizes == sizes, MutationError,
                 "the traced function resizes a tensor that it gives as out=\n  try: pass one of the right size");
    }
  }

 private:
  std::vector<std::pair<at::Tensor, std::vector<Dim>>> before_;
};

// A view of an inference tensor is one too, and a view of another tensor is none, whatever the mode is.
// Functionalization makes a new wrapper for a view, which goes by the mode: so it is that of the tensor for as long.
class ModeOfViewed {
 public:
  ModeOfViewed(const OpPlan& plan, c10::ArrayRef<IValue> args) {
    if (!plan.is_view || args.empty() || !args[0].isTensor() || !args[0].toTensor().defined()) return;
    const bool wanted = args[0].toTensor().is_inference();
    if (wanted == c10::InferenceMode::is_enabled()) return;
    mode_.emplace(wanted);
    c10::GradMode::set_enabled(false);
  }

 private:
  std::optional<c10::InferenceMode> mode_;
};

// A number that stands for a symbol has a value of its own, which means nothing: what is read is the symbol's.
bool read_symbol(const OpPlan& plan, c10::ArrayRef<IValue> args, Recorder& recorder, Stack* stack) {
  if (!plan.data_dependent || args.size() != 1 || !args[0].isTensor()) return false;
  const at::Tensor& number = args[0].toTensor();
  if (!number.defined() || !number.unsafeGetTensorImpl()->is_wrapped_number()) return false;
  const IValue symbol = recorder.symbol_behind(number);
  if (symbol.isNone()) return false;
  stack->resize(stack->size() - 1);
  if (symbol.isSymInt()) {
    stack->emplace_back(at::Scalar(symbol.toSymInt().guard_int(__FILE__, __LINE__)));
  } else if (symbol.isSymFloat()) {
    stack->emplace_back(at::Scalar(symbol.toSymFloat().guard_float(__FILE__, __LINE__)));
  } else {
    stack->emplace_back(at::Scalar(symbol.toSymBool().guard_bool(__FILE__, __LINE__)));
  }
  return true;
}

// A float or a truth that changes stands among the operands as a number that means nothing: the graph's input for it
// takes its place.
bool put_open_numbers(Recorder& recorder, Stack* stack, size_t base) {
  if (!recorder.symbols->numbers) return false;
  bool put = false;
  for (size_t i = base; i < stack->size(); ++i) {
    if (!(*stack)[i].isTensor()) continue;
    const at::Tensor& number = (*stack)[i].toTensor();
    if (!number.defined() || !number.unsafeGetTensorImpl()->is_wrapped_number()) continue;
    const IValue symbol = recorder.symbol_behind(number);
    const bool is_float = symbol.isSymFloat();
    if (!is_float && !symbol.isSymBool()) continue;
    const c10::SymNode behind = is_float ? symbol.toSymFloat().toSymNodeImpl() : symbol.toSymBool().toSymNodeImpl();
    const auto* node = dynamic_cast<SizeNode*>(behind.get());
    if (!node) continue;
    (*stack)[i] = recorder.symbols->numbers->operand(node->operand());
    put = true;
  }
  return put;
}

// Operators that make a tensor of a number before they do anything else: the same with the graph's input for it. Of
// other tensors but floating-point ones they report numbers that do not fit.
bool run_with_open_number(const c10::OperatorHandle& op, c10::ArrayRef<IValue> args, Recorder& recorder, Stack* stack) {
  if (!recorder.symbols->numbers || args.size() != 2 || !args[1].isSymFloat() || !args[0].isTensor()) return false;
  if (!args[0].toTensor().is_floating_point() || op.schema().overload_name() != "Scalar") return false;
  constexpr std::string_view kNames[] = {"lt", "le", "gt", "ge", "eq", "ne", "remainder", "fmod"};
  std::string_view word = op.schema().name();
  if (!word.starts_with("aten::")) return false;
  word.remove_prefix(6);
  if (word.ends_with('_')) word.remove_suffix(1);
  if (std::find(std::begin(kNames), std::end(kNames), word) == std::end(kNames)) return false;
  const InnerNode inner = g_inner_node.load(std::memory_order_relaxed);
  const c10::SymNode given = args[1].toSymFloat().toSymNodeImpl(), held = inner ? inner(given) : given;
  const auto* node = dynamic_cast<SizeNode*>(held.get());
  if (!node) return false;
  stack->back() = recorder.symbols->numbers->operand(node->operand());
  c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(), "Tensor").callBoxed(stack);
  return true;
}

void enter(const c10::OperatorHandle& op, DispatchKeySet below, Recorder& recorder, Stack* stack) {
  const std::shared_ptr<const OpPlan> found = plan_of(op);
  const OpPlan& plan = *found;
  const size_t base = stack->size() - plan.argument_count;
  c10::ArrayRef<IValue> args(stack->data() + base, plan.argument_count);
  if (read_symbol(plan, args, recorder, stack) || run_with_open_number(op, args, recorder, stack)) return;
  // Their stand-ins bring keys of their own.
  if (put_open_numbers(recorder, stack, base))
    below = plan.keys_for(stack) & DispatchKeySet(DispatchKeySet::FULL_AFTER, kEntryKey);
  if (plan.is_mutable) {
    functionalize_custom_op(plan);
    refuse_written_twice(op.schema(), args);
  }
  if (holds_wrapper(args)) {
    // Its class goes on with its parts, which are functional themselves.
    c10::impl::ExcludeDispatchKeyGuard guard(DispatchKey::Functionalize);
    return op.redispatchBoxed(below - DispatchKeySet(DispatchKey::Functionalize), stack);
  }
  if (!holds_plain_real(args)) {
    bool any_tensor = false;
    for (const IValue& arg : args) each_tensor(arg, [&](const at::Tensor&) { any_tensor = true; });
    if (!any_tensor && is_filling_real_tensor()) return run_for_real(op, recorder, stack);
    const ModeOfViewed mode(plan, args);
    if (!plan.is_mutable) return op.redispatchBoxed(below, stack);
    const WrittenLayouts layouts(plan, args);
    const OutSizes outs(op.schema(), args);
    op.redispatchBoxed(below, stack);
    outs.refuse_resized();
    return layouts.restore();
  }
  if (is_filling_real_tensor() && !plan.is_lift) {
    OutsideTrace outside;
    return op.callBoxed(stack);
  }
  if (plan.is_lift) {
    at::Tensor constant = recorder.fresh_constant((*stack)[base].toTensor());
    stack->resize(base);
    stack->emplace_back(std::move(constant));
    return;
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> swapped;  // stand-in, real
  for (size_t i = base; i < stack->size(); ++i) {
    map_tensors((*stack)[i], [&](const at::Tensor& tensor) {
      if (!is_plain_real(tensor)) return tensor;
      return swapped.emplace_back(recorder.stand_in(tensor, InputRole::Captured), tensor).first;
    });
  }
  const ModeOfViewed mode(plan, args);
  const WrittenLayouts layouts(plan, args);
  const OutSizes outs(op.schema(), args);
  // The swapped arguments bring keys of their own (Functionalize, Fake).
  op.redispatchBoxed(plan.keys_for(stack) & DispatchKeySet(DispatchKeySet::FULL_AFTER, kEntryKey), stack);

  if (plan.is_mutable) {
    outs.refuse_resized();
    layouts.restore();
    // `buffer.add_(x)` gives back the tensor it was called on, not its stand-in.
    for (size_t i = base; i < stack->size(); ++i) {
      map_tensors((*stack)[i], [&](const at::Tensor& tensor) {
        for (const auto& [stand_in, real] : swapped) {
          if (stand_in.is_same(tensor)) return real;
        }
        return tensor;
      });
    }
  }
}

}  // namespace

void set_inner_node(InnerNode provider) { g_inner_node.store(provider, std::memory_order_relaxed); }

void entry_kernel(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const DispatchKeySet below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kEntryKey);
  if (infer_inner_call(op, stack)) return;
  Recorder* recorder = Recorder::current();
  if (!recorder || !recorder->active() || is_inferring_shapes()) return op.redispatchBoxed(below, stack);
  try {
    enter(op, below, *recorder, stack);
  } catch (const c10::Error& error) {
    // A kernel that reads a tensor's memory itself (`tensor_split` with tensor indices).
    if (std::string_view(error.msg()).find("data is not allocated yet") == std::string_view::npos) throw;
    recorder->fail_data_dependent(op.schema().name());
  }
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&entry_kernel>());
}

}  // namespace firesteel
