// Lays out a graph's operators for boxed calls, and runs them.
#include "runtime/program.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "aot/op_plan.h"
#include "base/error.h"
#include "runtime/saved_memory.h"
#include "runtime/watched_runs.h"

namespace firesteel {
namespace {

// A Python number where the schema wants a tensor: torch passes it as a 0-dim tensor that does not take part in type
// promotion.
c10::IValue wrapped_number(const c10::IValue& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool wants_tensor(const c10::Argument& schema) {
  c10::TypePtr type = schema.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::TensorType;
}

std::vector<int64_t> sizes_at(const std::vector<int64_t>& all, const std::vector<int32_t>& places) {
  std::vector<int64_t> sizes;
  sizes.reserve(places.size());
  for (int32_t place : places) sizes.push_back(all[place]);
  return sizes;
}

bool shapes_are_checked() { return std::getenv("FIRESTEEL_CHECK_SHAPES") != nullptr; }

bool wants_optional_tensors(const c10::Argument& schema) {
  auto list = schema.type()->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::OptionalType;
}

}  // namespace

int32_t Program::add_size(const Dim& dim) {
  auto found = std::find(dims_.begin(), dims_.end(), dim);
  if (found == dims_.end()) found = dims_.insert(dims_.end(), dim);
  return static_cast<int32_t>(found - dims_.begin());
}

Program::Argument Program::lay_out(const Arg& arg, const c10::Argument& schema) {
  Argument argument;
  switch (arg.kind) {
    case Arg::Kind::None:
      if (wants_tensor(schema) && schema.type()->kind() == c10::TypeKind::TensorType) argument.constant = at::Tensor();
      break;
    case Arg::Kind::Const:
      argument.constant = wants_tensor(schema) ? wrapped_number(arg.constant) : arg.constant;
      break;
    case Arg::Kind::Value:
      argument.kind = Argument::Kind::Slot;
      argument.slot = slot_of_.at(arg.value);
      break;
    case Arg::Kind::Dim:
      argument.kind = wants_tensor(schema) ? Argument::Kind::Number : Argument::Kind::Size;
      argument.sizes.push_back(add_size(arg.dim));
      break;
    default:
      if (arg.has_dim()) {
        argument.kind = Argument::Kind::Sizes;
        for (const Arg& item : arg.items)
          argument.sizes.push_back(add_size(item.kind == Arg::Kind::Dim ? item.dim : Dim(item.constant.toInt())));
        break;
      }
      argument.kind = wants_optional_tensors(schema) ? Argument::Kind::OptionalList : Argument::Kind::List;
      for (const Arg& item : arg.items) {
        argument.slots.push_back(item.kind == Arg::Kind::Value ? slot_of_.at(item.value) : kNoSlot);
      }
  }
  return argument;
}

int32_t Program::slot_for(const Value* value) {
  return slot_of_.emplace(value, static_cast<int32_t>(slot_of_.size())).first->second;
}

void Program::add_call(const Node& node, size_t number) {
  FS_CHECK(node.op.is_aten(), "only ATen operators can be run here, not `{}`", node.op.str());
  Instruction instruction{node.op.aten, nullptr, {}, node.returns, {}, {}};
  const Node* const nodes[] = {&node};
  instruction.name = watched_name(nodes, /*is_kernel=*/false);
  instruction.origin = number;
  const auto& schema = node.op.aten->schema().arguments();
  for (size_t i = 0; i < node.args.size(); ++i) instruction.arguments.push_back(lay_out(node.args[i], schema[i]));
  for (const auto& output : node.outputs) {
    instruction.results.push_back(output->type.is_tensor() ? slot_for(output.get()) : kNoSlot);
    if (check_shapes_) instruction.expected.push_back(output->type);
  }
  instruction.is_of_user = plan_of(*node.op.aten)->is_of_user;
  // A backward is given what the forward has found out.
  if (node.phase == Phase::Forward) instruction.finds = data_symbols_of(node);
  instructions_.push_back(std::move(instruction));
  ++each_run_.aten_ops;
  if (node.op.aten->operator_name().name.starts_with("mkldnn::_linear")) ++each_run_.onednn_matmuls;
}

std::shared_ptr<KernelCall> Program::add_kernel(const Graph& graph, const FusedGroup& group) {
  Instruction instruction;
  instruction.kernel = std::make_shared<KernelCall>(group, nullptr);
  instruction.name = watched_name(group.nodes, /*is_kernel=*/true);
  for (const Value* input : group.inputs) {
    Argument argument;
    argument.kind = Argument::Kind::Slot;
    argument.slot = slot_of_.at(input);
    instruction.arguments.push_back(std::move(argument));
  }
  for (const Value* output : group.outputs) instruction.results.push_back(slot_for(output));
  instruction.overwrites = overwrites(graph, group);
  instruction.reuses = reuses(group);
  instructions_.push_back(instruction);
  each_run_.native_ops += group.nodes.size();
  ++each_run_.kernels;
  if (group.kernel.is_open()) {
    ++each_run_.open_kernels;
    loop_dims_.insert(loop_dims_.end(), group.kernel.sizes.begin(), group.kernel.sizes.end());
    loop_dims_.push_back(group.kernel.row_length());
  }
  return instruction.kernel;
}

void Program::add_fused(const Graph& graph, std::span<const FusedGroup* const> groups) {
  std::unordered_map<const FusedGroup*, std::shared_ptr<KernelCall>> kernel_of;
  std::unordered_map<const Node*, size_t> numbers;
  for (const auto& node : graph.nodes) numbers.emplace(node.get(), numbers.size());
  for (const FusedStep& step : schedule(graph, groups)) {
    if (step.group) {
      kernel_of.emplace(step.group, add_kernel(graph, *step.group));
      instructions_.back().origin =
          static_cast<size_t>(std::find(groups.begin(), groups.end(), step.group) - groups.begin());
    } else {
      add_call(*step.node, numbers.at(step.node));
    }
  }
  for (const FusedGroup* group : groups) kernels_.push_back(kernel_of.at(group));
}

void Program::provide(std::span<const KernelFunction> functions) {
  for (size_t i = 0; i < kernels_.size(); ++i) kernels_[i]->provide(functions[i]);
  kernels_.clear();
}

void Program::begin(const Graph& graph) {
  for (const Input& input : graph.inputs) {
    const int32_t slot = slot_for(input.value.get());
    if (input.role == InputRole::Saved) saved_.push_back(slot);
  }
  input_count_ = graph.inputs.size();
  instructions_.reserve(graph.nodes.size());
}

// Whether it may raise an error for what its arguments hold. A write to an input must not come before one that does,
// as the caller would find the input changed by a call that failed.
bool Program::may_refuse(const Instruction& instruction) {
  if (instruction.kernel) return instruction.kernel->may_refuse();
  if (op_facts(*instruction.op).is_view) return false;
  static constexpr std::string_view kNever[] = {"aten::mm",
                                                "aten::addmm",
                                                "aten::bmm",
                                                "aten::baddbmm",
                                                "aten::convolution",
                                                "aten::convolution_backward",
                                                "aten::clone",
                                                "aten::_to_copy",
                                                "aten::copy",
                                                "aten::full",
                                                "aten::empty",
                                                "mkldnn::_linear_pointwise",
                                                "firesteel::product",
                                                "firesteel::batch_product",
                                                "firesteel::convolution",
                                                "firesteel::convolution_backward"};
  return std::find(std::begin(kNever), std::end(kNever), instruction.op->operator_name().name) == std::end(kNever);
}

void Program::finish(const Graph& graph) {
  for (const Arg& output : graph.outputs) {
    outputs_.push_back({output.kind == Arg::Kind::Value ? slot_of_.at(output.value) : kNoSlot, false});
  }
  slot_count_ = slot_of_.size();
  slot_of_.clear();
  plan_data_sizes();
  if (!dims_.empty()) sizes_.emplace(dims_);
  dims_.clear();
  std::erase_if(loop_dims_, [](const Dim& dim) { return dim.is_number(); });
  if (!loop_dims_.empty()) loops_.emplace(loop_dims_, symbol_names(loop_dims_));
  loop_count_ = loop_dims_.size();
  loop_dims_.clear();
  mark_last_uses();
  costs_ = std::make_shared<RunCosts>(instructions_.size());
  bool safe = true;  // nothing from here on may refuse
  for (size_t i = instructions_.size(); i-- > 0;) {
    Instruction& instruction = instructions_[i];
    safe = safe && !may_refuse(instruction);
    std::erase_if(instruction.reuses,
                  [&](const Overwrite& pair) { return !instruction.arguments[pair.input].last_use; });
    std::erase_if(instruction.overwrites,
                  [&](const Overwrite& pair) { return !safe || !instruction.arguments[pair.input].last_use; });
    overwrites_ = overwrites_ || !instruction.overwrites.empty();
  }
}

Program::Program(const Graph& graph, const ProgramOptions& options)
    : check_shapes_(options.check_shapes || shapes_are_checked()) {
  begin(graph);
  if (options.native && can_compile_kernels()) {
    const std::vector<FusedGroup> groups = fuse(graph, options.fuse);
    std::vector<const LoopKernel*> kernels;
    std::vector<const FusedGroup*> compiled;
    for (const FusedGroup& group : groups) {
      kernels.push_back(&group.kernel);
      compiled.push_back(&group);
    }
    std::vector<KernelFunction> code = compile_kernels(kernels);
    if (!all_made(code)) {
      compiled.clear();
      code.clear();
    }
    add_fused(graph, compiled);
    provide(code);
  } else {
    for (size_t i = 0; i < graph.nodes.size(); ++i) add_call(*graph.nodes[i], i);
  }
  finish(graph);
}

Program::Program(const Graph& graph, std::span<const FusedGroup> groups) : check_shapes_(shapes_are_checked()) {
  begin(graph);
  std::vector<const FusedGroup*> all;
  for (const FusedGroup& group : groups) all.push_back(&group);
  add_fused(graph, all);
  finish(graph);
}

// Sizes that follow from what an instruction finds out have their value after it, all others from the start.
void Program::plan_data_sizes() {
  std::unordered_map<size_t, size_t> found_by;
  for (size_t i = 0; i < instructions_.size(); ++i) {
    for (const DataSymbol& symbol : instructions_[i].finds) found_by[symbol.symbol] = i;
  }
  if (found_by.empty()) return;
  data_dims_ = dims_;
  for (size_t place = 0; place < dims_.size(); ++place) {
    std::optional<size_t> after;
    for (const std::string& name : symbol_names(std::span(&dims_[place], 1))) {
      const auto found = found_by.find(symbol_number(name));
      if (name.starts_with('u') && found != found_by.end()) after = std::max(after.value_or(0), found->second);
    }
    if (!after) continue;
    instructions_[*after].tells.push_back(static_cast<int32_t>(place));
    dims_[place] = Dim(0);
  }
}

void Program::find_symbols(const Instruction& instruction, const torch::jit::Stack& results, Run& run) const {
  if (run.found.empty()) run.found.assign(run.symbols.begin(), run.symbols.end());
  for (const DataSymbol& symbol : instruction.finds) {
    const c10::IValue& value = results.at(symbol.result);
    FS_REQUIRE(!value.isSymInt(), DataDependentError, "a number that data gives is asked for while a trace runs");
    if (run.found.size() <= symbol.symbol) run.found.resize(symbol.symbol + 1);
    run.found[symbol.symbol] = symbol.dim < 0 ? value.toScalar().toLong() : value.toTensor().size(symbol.dim);
  }
  run.symbols = run.found;
  for (int32_t place : instruction.tells)
    run.sizes[place] = sizes_of(std::span(&data_dims_[place], 1), run.symbols).front();
}

// Walks backwards: the first use met of a slot is its last.
void Program::mark_last_uses() {
  std::vector<bool> seen(slot_count_, false);
  for (size_t i = outputs_.size(); i-- > 0;) {
    if (outputs_[i].slot == kNoSlot) continue;
    outputs_[i].last_use = !seen[outputs_[i].slot];
    seen[outputs_[i].slot] = true;
  }
  for (size_t i = instructions_.size(); i-- > 0;) {
    Instruction& instruction = instructions_[i];
    for (int32_t& result : instruction.results) {
      if (result != kNoSlot && !seen[result]) result = kNoSlot;
    }
    for (size_t a = instruction.arguments.size(); a-- > 0;) {
      Argument& argument = instruction.arguments[a];
      if (argument.kind == Argument::Kind::Slot) {
        argument.last_use = !seen[argument.slot];
        seen[argument.slot] = true;
      }
      for (int32_t slot : argument.slots) {
        if (slot == kNoSlot || seen[slot]) continue;
        instruction.frees.push_back(slot);
        seen[slot] = true;
      }
    }
  }
  std::vector<bool> is_saved(slot_count_, false);
  for (int32_t slot : saved_) is_saved[slot] = true;
  for (Instruction& instruction : instructions_) {
    for (const Argument& argument : instruction.arguments) {
      if (argument.last_use && is_saved[argument.slot]) instruction.last_saved.push_back(argument.slot);
    }
    for (int32_t slot : instruction.frees) {
      if (is_saved[slot]) instruction.last_saved.push_back(slot);
    }
  }
  for (size_t input = 0; input < input_count_; ++input) {
    if (!seen[input]) unread_.push_back(static_cast<int32_t>(input));
  }
}

// Memory that more than one input lies in, sorted.
std::vector<const void*> Program::shared_storages(const std::vector<at::Tensor>& inputs) const {
  std::vector<const void*> all, shared;
  if (!overwrites_) return shared;
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.has_storage()) all.push_back(input.storage().unsafeGetStorageImpl());
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i] == all[i - 1]) shared.push_back(all[i]);
  }
  return shared;
}

void Program::execute_kernel(const Instruction& instruction, std::vector<at::Tensor>& slots, const Run& run) {
  c10::SmallVector<const at::Tensor*, 16> inputs;
  for (const Argument& argument : instruction.arguments) inputs.push_back(&slots[argument.slot]);
  c10::SmallVector<at::Tensor, 8> outputs(instruction.results.size());
  for (const Overwrite& pair : instruction.overwrites) {
    const at::Tensor& input = *inputs[pair.input];
    if (!std::binary_search(run.shared.begin(), run.shared.end(), input.storage().unsafeGetStorageImpl()))
      outputs[pair.output] = input;
  }
  for (const Overwrite& pair : instruction.reuses) {
    const at::Tensor& input = *inputs[pair.input];
    if (!outputs[pair.output].defined() && is_sole_owner(input)) outputs[pair.output] = input;
  }
  instruction.kernel->run({inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}, run.symbols);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (instruction.results[i] != kNoSlot) slots[instruction.results[i]] = std::move(outputs[i]);
  }
  for (const Argument& argument : instruction.arguments) {
    if (argument.last_use) slots[argument.slot].reset();
  }
}

void Program::execute(const Instruction& instruction, std::vector<at::Tensor>& slots, torch::jit::Stack& stack,
                      Run& run) const {
  if (instruction.kernel) return execute_kernel(instruction, slots, run);
  for (const Argument& argument : instruction.arguments) {
    switch (argument.kind) {
      case Argument::Kind::Constant:
        stack.push_back(argument.constant);
        break;
      case Argument::Kind::Slot:
        if (argument.last_use) {
          stack.emplace_back(std::move(slots[argument.slot]));
        } else {
          stack.emplace_back(slots[argument.slot]);
        }
        break;
      case Argument::Kind::Size:
        stack.emplace_back(run.sizes[argument.sizes[0]]);
        break;
      case Argument::Kind::Number:
        stack.push_back(wrapped_number(run.sizes[argument.sizes[0]]));
        break;
      case Argument::Kind::Sizes:
        stack.emplace_back(sizes_at(run.sizes, argument.sizes));
        break;
      case Argument::Kind::List: {
        c10::List<at::Tensor> list;
        list.reserve(argument.slots.size());
        for (int32_t slot : argument.slots) list.push_back(slot == kNoSlot ? at::Tensor() : slots[slot]);
        stack.emplace_back(std::move(list));
        break;
      }
      case Argument::Kind::OptionalList: {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(argument.slots.size());
        for (int32_t slot : argument.slots) {
          list.push_back(slot == kNoSlot ? std::optional<at::Tensor>() : std::optional<at::Tensor>(slots[slot]));
        }
        stack.emplace_back(std::move(list));
        break;
      }
    }
  }
  if (instruction.is_of_user) [[unlikely]] {
    // Written in Python, it may ask for it: `numpy()` of an input that requires a gradient.
    const at::AutoGradMode no_gradients(false);
    instruction.op->callBoxed(stack);
  } else {
    instruction.op->callBoxed(stack);
  }
  if (!instruction.finds.empty()) [[unlikely]]
    find_symbols(instruction, stack, run);
  size_t result = 0;
  for (size_t r = 0; r < instruction.returns.size(); ++r) {
    c10::IValue& value = stack[r];
    if (instruction.returns[r].list_count < 0) {
      const int32_t slot = instruction.results[result++];
      if (check_shapes_ && value.isTensor()) check_layout(instruction, result - 1, value.toTensor(), run);
      if (slot != kNoSlot) slots[slot] = std::move(value).toTensor();
      continue;
    }
    std::vector<at::Tensor> list = value.toTensorVector();
    FS_CHECK(static_cast<int32_t>(list.size()) == instruction.returns[r].list_count,
             "`{}` gave {} tensors instead of {}", instruction.op->schema().name(), list.size(),
             instruction.returns[r].list_count);
    for (at::Tensor& tensor : list) {
      const int32_t slot = instruction.results[result++];
      if (check_shapes_) check_layout(instruction, result - 1, tensor, run);
      if (slot != kNoSlot) slots[slot] = std::move(tensor);
    }
  }
  stack.clear();
  for (int32_t slot : instruction.frees) slots[slot].reset();
}

void Program::check_layout(const Instruction& instruction, size_t result, const at::Tensor& tensor, const Run& run) {
  const Type& expected = instruction.expected.at(result);
  if (!tensor.defined() && !expected.is_tensor()) return;
  // Kernels that size as they like what only their own backward reads: embedding_bag's bookkeeping, an LSTM's
  // workspace.
  const std::string& name = instruction.op->schema().name();
  if ((name.starts_with("aten::_embedding_bag") && result > 0) || (name == "aten::mkldnn_rnn_layer" && result == 3))
    return;
  if (!tensor.defined() && name == "firesteel::opaque_backward")
    return;  // a gradient that nothing reads may be missing
  FS_CHECK(tensor.defined() == expected.is_tensor(), "`{}`, result {}: recorded as {}", name, result, expected.str());
  if (tensor.layout() != at::kStrided) return;
  const std::vector<int64_t> sizes = sizes_of(expected.sizes, run.symbols);
  const std::vector<int64_t> strides = sizes_of(expected.strides, run.symbols);
  bool same = tensor.scalar_type() == expected.dtype && tensor.dim() == static_cast<int64_t>(expected.sizes.size());
  for (int64_t d = 0; same && d < tensor.dim(); ++d) {
    same = sizes[d] == tensor.size(d) && (tensor.size(d) <= 1 || tensor.numel() == 0 || strides[d] == tensor.stride(d));
  }
  FS_CHECK(same, "`{}`, result {}: recorded as {}, the kernel gave {}[{}; {}]", name, result, expected.str(),
           dtype_text(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "), fmt::join(tensor.strides(), ", "));
}

bool Program::fits(std::span<const int64_t> symbols) const {
  if (!loops_) return true;
  c10::SmallVector<int64_t, 64> steps(loop_count_);
  return loops_->run(symbols.data(), steps.data()) && std::all_of(steps.begin(), steps.end(), [](int64_t count) {
           return count > 0 && count < std::numeric_limits<int32_t>::max();
         });
}

std::vector<at::Tensor> Program::run(std::vector<at::Tensor> inputs, std::span<const int64_t> symbols,
                                     std::vector<int64_t>* found) const {
  FS_CHECK(inputs.size() == input_count_, "the graph takes {} inputs and got {}", input_count_, inputs.size());
  const std::vector<const void*> shared = shared_storages(inputs);
  std::vector<at::Tensor> slots = std::move(inputs);
  slots.resize(slot_count_);
  for (int32_t input : unread_) slots[input].reset();
  torch::jit::Stack stack;
  stack.reserve(32);
  Run run{shared, symbols, sizes_ ? sizes_->run(symbols) : std::vector<int64_t>(), {}};
  if (found) run.found.assign(symbols.begin(), symbols.end());
  if (is_watched()) [[unlikely]] {
    run_watched(slots, stack, run);
  } else {
    SavedMemory saved(slots, saved_);
    for (const Instruction& instruction : instructions_) {
      saved.about_to_free(slots, instruction.last_saved);
      execute(instruction, slots, stack, run);
      saved.make_room();
    }
  }
  count_run(each_run_);
  if (found) *found = std::move(run.found);
  std::vector<at::Tensor> results;
  results.reserve(outputs_.size());
  for (const Output& output : outputs_) {
    if (output.slot == kNoSlot) {
      results.emplace_back();
    } else if (output.last_use) {
      results.push_back(std::move(slots[output.slot]));
    } else {
      results.push_back(slots[output.slot]);
    }
  }
  return results;
}

}  // namespace firesteel
