// Recording: nodes, values, and stand-ins for the real tensors a traced function touches.
#include "aot/recorder.h"

#include <algorithm>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/autograd_nodes.h"
#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"
#include "aot/symbolic_layouts.h"
#include "base/error.h"
#include "base/progress.h"
#include "graph/data_symbols.h"

namespace firesteel {
namespace {

thread_local Recorder* t_current = nullptr;
std::atomic<SourceProvider> g_source_provider{nullptr};
std::atomic<SymbolBehind> g_symbol_behind{nullptr};

// Hands gradients on unchanged. An input that is no leaf outside must not be one inside either: writing to a leaf that
// requires grad is an error, writing to another tensor is not.
struct PassGradient : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
  std::string name() const override { return "FiresteelInput"; }
};

bool spans(const at::Tensor& outer, const at::Tensor& inner) {
  auto last = [](const at::Tensor& t) {
    int64_t end = t.storage_offset();
    for (int64_t d = 0; d < t.dim(); ++d) end += (t.size(d) - 1) * t.stride(d);
    return end;
  };
  return outer.numel() > 0 && inner.numel() > 0 && outer.scalar_type() == inner.scalar_type() &&
         outer.is_contiguous() && outer.storage_offset() <= inner.storage_offset() && last(inner) <= last(outer);
}

}  // namespace

void set_symbol_behind(SymbolBehind provider) { g_symbol_behind.store(provider, std::memory_order_relaxed); }

void set_source_provider(SourceProvider provider) { g_source_provider.store(provider, std::memory_order_relaxed); }

Recorder::Recorder(std::string name) : symbols(std::make_shared<Symbols>([this] { return source_here(); })) {
  graph.name = std::move(name);
  symbols->refuse = [this](const std::string& what) { fail_data_dependent(what); };
}

Recorder* Recorder::current() { return t_current; }

int32_t Recorder::argument_count() const {
  return static_cast<int32_t>(std::count_if(graph.inputs.begin(), graph.inputs.end(),
                                            [](const Input& input) { return input.role == InputRole::Argument; }));
}

namespace {

// Sizes 0 and 1 as well: nothing is asked of the size that it has in this call.
bool takes_any(const DynamicDim& dim) { return dim.least < 2; }

// Without data, in a layout whose sizes are other ones than the tensor's own.
at::Tensor meta_of(const SymbolicLayout& layout, const Symbols& symbols, const at::Tensor& real) {
  auto numbers = [&](const std::vector<Dim>& dims) {
    std::vector<int64_t> hints;
    for (const Dim& dim : dims) hints.push_back(symbols.hint(dim));
    return hints;
  };
  return at::detail::empty_strided_meta(numbers(layout.sizes), numbers(layout.strides), real.scalar_type());
}

}  // namespace

// Equal sizes are taken to stay equal, which is guarded where each symbol's value is read.
Dim Recorder::size_symbol(const at::Tensor& real, const DynamicDim& dim) {
  const int64_t size = real.size(dim.dim);
  SymbolOrigin origin;
  origin.argument = argument_count();
  origin.dim = dim.dim;
  origin.hint = size;
  origin.most = dim.most;
  if (takes_any(dim)) return symbols->add(std::move(origin));
  origin.least = std::max<int64_t>(dim.least, 2);
  if (dim.apart) return symbols->add(std::move(origin));
  const SizeKey key{size, dim.before, dim.before ? dim.dim : -1};
  auto found = symbol_of_size_.find(key);
  if (found != symbol_of_size_.end()) return found->second;
  return symbol_of_size_.emplace(key, symbols->add(std::move(origin))).first->second;
}

Dim Recorder::number_symbol(int64_t hint, int64_t least) {
  OutsideTrace outside;
  SymbolOrigin origin;
  origin.argument = argument_count();
  origin.hint = hint;
  origin.least = least;
  ++numbers_;
  graph.add_input(Type::tensor(at::kLong, at::kCPU, {}, {}), InputRole::Argument);
  return symbols->add(std::move(origin));
}

// Strides that follow from the sizes stay to do so; others are numbers, which are guarded.
std::optional<SymbolicLayout> Recorder::symbolic_layout(const at::Tensor& real) {
  auto found = dynamic_.find(real.unsafeGetTensorImpl());
  if (found == dynamic_.end()) return std::nullopt;
  SymbolicLayout layout = layout_of(real);
  // Where sizes 0 and 1 hide how the tensor lies in memory, only the usual way can be told.
  const bool serves_any = real.is_contiguous() && real.storage_offset() == 0;
  bool any = false;
  for (const DynamicDim& dim : found->second) {
    any = any || (takes_any(dim) && serves_any);
    const bool is_open = takes_any(dim) ? serves_any : real.size(dim.dim) >= 2 && real.numel() > 0;
    if (is_open) layout.sizes[dim.dim] = size_symbol(real, dim);
  }
  if (!layout.is_symbolic()) return std::nullopt;
  if (any) {
    layout.strides = contiguous_strides(layout.sizes);
  } else if (real.is_non_overlapping_and_dense()) {
    const std::vector<Dim> dense = dense_strides(layout.sizes, real.sizes(), real.strides());
    for (int64_t d = 0; d < real.dim(); ++d) {
      if (real.size(d) != 1) layout.strides[d] = dense[d];
    }
  }
  return layout;
}

SourceRef Recorder::source_here() {
  // In the backward the line is that of the forward operator whose gradient is taken.
  if (phase == Phase::Backward) {
    if (auto node = torch::autograd::get_current_node()) {
      auto found = source_of_sequence_.find(node->sequence_nr());
      if (found != source_of_sequence_.end()) return found->second;
    }
  }
  SourceProvider provider = g_source_provider.load(std::memory_order_relaxed);
  SourceRef source = named_place || !provider ? named_place : provider();
  if (phase == Phase::Forward && source) {
    // Autograd numbers its node just before the operator runs below it. An operator without one finds the number of an
    // earlier operator's, which it leaves alone.
    const uint64_t next = at::sequence_number::peek();
    if (next > 0) source_of_sequence_.try_emplace(next - 1, source);
  }
  return source;
}

at::Tensor Recorder::make_stand_in(const at::Tensor& real, InputRole role) {
  FS_REQUIRE(real.layout() == at::kStrided, TraceError, "a {} tensor cannot be traced: only strided tensors can",
             c10::str(real.layout()));
  StandIn entry;
  entry.real = real;
  std::optional<SymbolicLayout> layout;
  const auto is_made_up = [](const Dim& size) { return mentions_data(size); };
  const auto any_made_up = [&] {
    return layout && std::any_of(layout->sizes.begin(), layout->sizes.end(), is_made_up);
  };
  const auto meta = [&] { return any_made_up() ? meta_of(*layout, *symbols, real) : meta_like(real); };
  {
    OutsideTrace outside;
    layout = symbolic_layout(real);
    entry.value = graph.add_input(type_of(real), role);
    entry.value->type.requires_grad = real.requires_grad();
    if (role == InputRole::Captured) graph.inputs.back().captured = real;
    if (layout) {
      entry.value->type.sizes = layout->sizes;
      entry.value->type.strides = layout->strides;
    }
    at::Tensor fake = make_fake(meta(), real.device(), shared_from_this(), entry.value);
    if (layout) as_fake(fake)->set_layout(*layout);
    entry.functional = at::functionalization::impl::to_functional_tensor(fake);
  }
  entry.is_constant = role == InputRole::Captured && captures_are_constants;
  if (real.requires_grad() && !entry.is_constant) {
    if (real.is_leaf()) {
      entry.functional.set_requires_grad(true);
      entry.leaf = entry.functional;
    } else {
      c10::impl::ExcludeDispatchKeyGuard outside(kAboveMeta);
      at::Tensor fake = make_fake(meta(), real.device(), shared_from_this(), entry.value);
      if (layout) as_fake(fake)->set_layout(*layout);
      entry.leaf = at::functionalization::impl::to_functional_tensor(fake);
      entry.leaf.set_requires_grad(true);
      auto pass = make_autograd_node<PassGradient>();
      pass->set_next_edges({torch::autograd::impl::gradient_edge(entry.leaf)});
      torch::autograd::set_history(entry.functional, pass);
      entry.history = entry.functional.grad_fn();
    }
  }
  const size_t index = stand_ins_.size();
  by_real_[real.unsafeGetTensorImpl()] = index;
  stand_ins_.push_back(entry);
  return entry.functional;
}

at::Tensor Recorder::stand_in(const at::Tensor& real, InputRole role) {
  auto found = by_real_.find(real.unsafeGetTensorImpl());
  if (found != by_real_.end()) {
    if (role == InputRole::Captured) reached_.insert(real.unsafeGetTensorImpl());
    return stand_ins_[found->second].functional;
  }
  // An inference tensor stays one wherever it is met, and another does not become one.
  std::optional<c10::InferenceMode> as_it_is;
  if (real.is_inference() != c10::InferenceMode::is_enabled()) as_it_is.emplace(real.is_inference());
  for (const at::Tensor& born : born_) {
    if (born.is_alias_of(real)) return fresh_constant(real);
  }
  const c10::StorageImpl* storage =
      real.unsafeGetTensorImpl()->has_storage() ? real.storage().unsafeGetStorageImpl() : nullptr;
  auto same_storage = storage && storage->nbytes() > 0 ? by_storage_.find(storage) : by_storage_.end();
  if (same_storage != by_storage_.end()) {
    // Memory shared with a tensor seen before: a view of its stand-in, so that a write to one is seen through the
    // other. Where gradients are taken both stay inputs of their own; a write is then refused at the end of the trace.
    const StandIn base = stand_ins_[same_storage->second];
    if (!real.requires_grad() && !base.real.requires_grad() && spans(base.real, real))
      return add_view(real, base, role);
  }
  at::Tensor result = make_stand_in(real, role);
  if (storage) by_storage_.emplace(storage, stand_ins_.size() - 1);
  return result;
}

at::Tensor Recorder::add_view(const at::Tensor& real, const StandIn& base, InputRole role) {
  StandIn entry{.real = real, .is_view = true};
  if (role == InputRole::Captured) reached_.insert(base.real.unsafeGetTensorImpl());
  // An argument keeps its place among the inputs, though nothing reads it.
  if (role == InputRole::Argument) entry.value = graph.add_input(type_of(real), role);
  entry.functional = at::as_strided(base.functional, real.sizes(), real.strides(), real.storage_offset());
  by_real_[real.unsafeGetTensorImpl()] = stand_ins_.size();
  stand_ins_.push_back(entry);
  return entry.functional;
}

std::string Recorder::forbidden_write(const StandIn& written) const {
  for (const StandIn& other : stand_ins_) {
    if (other.is_view || other.real.is_same(written.real) || !other.real.has_storage() || !written.real.has_storage())
      continue;
    if (!other.real.is_alias_of(written.real) ||
        at::get_overlap_status(other.real, written.real) == at::MemOverlapStatus::No) {
      continue;
    }
    return fmt::format("a tensor of type {} is changed in place, and another one of type {} shares its memory{}",
                       type_of(written.real).str(), type_of(other.real).str(),
                       written.real.requires_grad() || other.real.requires_grad() ? " while gradients are taken" : "");
  }
  return {};
}

at::Tensor Recorder::fresh_constant(const at::Tensor& real) {
  OutsideTrace outside;
  Value* value = captured_value(real);
  fresh_constants_[value] = real;
  at::Tensor fake = make_fake(meta_like(real), real.device(), shared_from_this(), value);
  as_fake(fake)->set_constant(real);
  return at::functionalization::impl::to_functional_tensor(fake);
}

at::Tensor Recorder::number_stand_in(const at::Tensor& real) {
  ++numbers_;
  OutsideTrace outside;
  Value* value = graph.add_input(type_of(real), InputRole::Argument);
  at::Tensor fake = make_fake(meta_like(real), real.device(), shared_from_this(), value);
  at::Tensor functional = at::functionalization::impl::to_functional_tensor(fake);
  functional.unsafeGetTensorImpl()->set_wrapped_number(true);
  return functional;
}

Value* Recorder::captured_value(const at::Tensor& real) {
  Value* value = graph.add_input(type_of(real), InputRole::Captured);
  graph.inputs.back().captured = real;
  return value;
}

c10::IValue Recorder::symbol_behind(const at::Tensor& number) const {
  const SymbolBehind provider = symbols->empty() ? nullptr : g_symbol_behind.load(std::memory_order_relaxed);
  return provider ? provider(number) : c10::IValue();
}

Arg Recorder::arg_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (FakeTensorImpl* fake = as_fake(tensor)) {
    FS_CHECK(&fake->recorder() == this, "a tensor of another trace reached this one");
    return Arg(fake->value());
  }
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    if (const c10::IValue symbol = symbol_behind(tensor); !symbol.isNone()) return arg_of(symbol);
    OutsideTrace outside;
    return Arg::of_const(tensor.item());
  }
  FS_CHECK(!tensor.is_meta(), "a meta tensor without a value reached the graph");
  return Arg(captured_value(tensor));
}

Arg Recorder::arg_of(const c10::IValue& value) {
  if (value.isTensor()) return arg_of(value.toTensor());
  if (value.isTensorList()) {
    std::vector<Arg> items;
    for (const at::Tensor& tensor : value.toTensorVector()) items.push_back(arg_of(tensor));
    return Arg::list(std::move(items));
  }
  if (value.isOptionalTensorList()) {
    std::vector<Arg> items;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      items.push_back(tensor ? arg_of(*tensor) : Arg());
    }
    return Arg::list(std::move(items));
  }
  if (value.isSymInt()) return Arg::of_dim(symbols->simplify(dim_of(value.toSymInt())));
  if (value.isSymFloat()) return Arg::of_const(value.toSymFloat().guard_float(__FILE__, __LINE__));
  if (value.isSymBool()) return Arg::of_const(value.toSymBool().guard_bool(__FILE__, __LINE__));
  if (value.isSymIntList()) {
    std::vector<Arg> items;
    std::vector<int64_t> numbers;
    for (const c10::SymInt& item : value.toSymIntVector()) {
      items.push_back(Arg::of_dim(symbols->simplify(dim_of(item))));
      if (items.back().kind == Arg::Kind::Const) numbers.push_back(items.back().constant.toInt());
    }
    return numbers.size() == items.size() ? Arg::of_const(std::move(numbers)) : Arg::list(std::move(items));
  }
  return Arg::of_const(value);
}

Node* Recorder::add_node(const OpPlan& plan, c10::ArrayRef<c10::IValue> args) {
  std::vector<Arg> converted;
  converted.reserve(args.size());
  for (const c10::IValue& arg : args) converted.push_back(arg_of(arg));
  Node* node = graph.add_aten(plan.op, std::move(converted));
  node->phase = phase;
  node->source = source_here();
  count_progress();
  // In the forward it is for those who follow the code to tell.
  if (phase == Phase::Backward) tell_progress_if_due();
  return node;
}

void Recorder::note_seeding(const at::Generator& generator) {
  const RandomStates::Place place = random_states.place_of(generator);
  if (place.is_here) return;
  const bool is_default = generator == at::detail::getDefaultCPUGenerator();
  const Arg target = is_default ? Arg() : Arg::of_const(generator);
  const at::Tensor now = state_of(generator);
  Value* state = place.is_known ? state_after(place.after, target, type_of(now)) : captured_value(now);
  Node* node = graph.add_aten(set_generator_state_op(), {Arg(state), target});
  node->phase = phase;
  node->source = source_here();
  random_states.moved(generator, node);
}

// The state a generator was in after that node (null: at the beginning), read by a node put there.
Value* Recorder::state_after(const Node* before, const Arg& generator, Type type) {
  Node* node = graph.add_aten(get_generator_state_op(), {generator});
  node->phase = before ? before->phase : Phase::Forward;
  node->source = source_here();
  Value* state = node->add_output(std::move(type));
  node->returns.push_back({});
  auto& nodes = graph.nodes;
  auto at = nodes.begin();
  if (before) at = 1 + std::find_if(at, nodes.end(), [&](const auto& one) { return one.get() == before; });
  std::rotate(at, nodes.end() - 1, nodes.end());
  return state;
}

Value* Recorder::add_value(Node* node, const at::Tensor& tensor) { return node->add_output(type_of(tensor)); }

void Recorder::close() {
  active_ = false;
  stand_ins_.clear();
  by_real_.clear();
  by_storage_.clear();
  born_.clear();
  source_of_sequence_.clear();
}

void Recorder::fail_data_dependent(const std::string& op) {
  std::string where;
  if (SourceRef source = source_here()) where = "\n  at " + source->str();
  data_dependent_failure_ = fmt::format(
      "the traced function reads a tensor's data, or makes a tensor whose size depends on data ({}){}\n"
      "  a graph holds for all values of its inputs, so it cannot depend on one\n"
      "  try: torch.where instead of a Python branch, a mask instead of an index, or keep this part out of the traced "
      "function",
      op, where);
  detail::raise<DataDependentError>(data_dependent_failure_);
}

void Recorder::fail_graph_break(GraphBreak asked) {
  if (!graph_break) {
    graph_break_failure_ = fmt::format(
        "the traced function asks for a graph break, and one graph cannot hold it\n  at {}:{}\n  reason: {}\n"
        "  try: keep the call out of the traced function; firesteel::compile without `fullgraph` runs such a function "
        "as it is",
        asked.file, asked.line, asked.reason);
    graph_break = std::move(asked);
  }
  detail::raise<GraphBreakError>(graph_break_failure_);
}

void Recorder::rethrow_failure() const {
  if (!graph_break_failure_.empty()) detail::raise<GraphBreakError>(graph_break_failure_);
  if (!data_dependent_failure_.empty()) detail::raise<DataDependentError>(data_dependent_failure_);
}

RecorderScope::RecorderScope(std::shared_ptr<Recorder> recorder)
    : recorder_(std::move(recorder)),
      outer_(t_current),
      reapply_views_(at::functionalization::impl::getFunctionalizationReapplyViewsTLS()),
      keys_(c10::impl::tls_local_dispatch_key_set().included_ |
                c10::DispatchKeySet({kEntryKey, c10::DispatchKey::Functionalize, kFakeKey}),
            c10::impl::tls_local_dispatch_key_set().excluded_ -
                c10::DispatchKeySet({kEntryKey, c10::DispatchKey::Functionalize, kFakeKey})) {
  t_current = recorder_.get();
  at::functionalization::impl::setFunctionalizationReapplyViewsTLS(true);
}

RecorderScope::~RecorderScope() {
  t_current = outer_;
  at::functionalization::impl::setFunctionalizationReapplyViewsTLS(reapply_views_);
  // Casts of stand-ins that autocast has kept must not outlive the trace.
  if (at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA))
    at::autocast::clear_cache();
}

bool is_tracing() { return t_current != nullptr; }

at::Tensor stand_in_for(const at::Tensor& real) {
  FS_CHECK(t_current, "no trace runs on this thread");
  return t_current->stand_in(real, InputRole::Captured);
}

ConstantCaptures::ConstantCaptures()
    : outer_(t_current->captures_are_constants), first_(t_current->stand_ins().size()) {
  t_current->captures_are_constants = true;
}

ConstantCaptures::~ConstantCaptures() { t_current->captures_are_constants = outer_; }

std::vector<at::Tensor> ConstantCaptures::without_gradient() const {
  std::vector<at::Tensor> found;
  const std::vector<Recorder::StandIn>& all = t_current->stand_ins();
  for (size_t i = first_; i < all.size(); ++i) {
    if (all[i].is_constant && all[i].real.requires_grad()) found.push_back(all[i].real);
  }
  return found;
}

at::Tensor number_stand_in(const at::Tensor& real) {
  FS_CHECK(t_current, "no trace runs on this thread");
  return t_current->number_stand_in(real);
}

Symbols* trace_symbols() { return t_current ? t_current->symbols.get() : nullptr; }

Dim number_symbol(int64_t hint, int64_t least) {
  FS_CHECK(t_current, "no trace runs on this thread");
  return t_current->number_symbol(hint, least);
}

bool is_traced_tensor(const at::Tensor& tensor) { return as_fake_inside(tensor) != nullptr; }

}  // namespace firesteel
