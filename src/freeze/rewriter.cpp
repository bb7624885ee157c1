// The frame that all rewriting of weights shares, and which values count as weights.
#include "freeze/rewriter.h"

#include <algorithm>
#include <utility>

#include <c10/core/Layout.h>

#include "graph/passes/purity.h"

namespace firesteel {
namespace {

// Its version tells of every change; one of inference mode has none.
bool is_weight(const Input& input) {
  return input.role == InputRole::Captured && input.captured.defined() && input.captured.layout() == c10::kStrided &&
         input.captured.device().is_cpu() && !input.captured.is_inference();
}

}  // namespace

ConstantValues constant_values(const Graph& graph) {
  ConstantValues constants;
  for (const Input& input : graph.inputs) {
    const bool changes = std::any_of(graph.mutations.begin(), graph.mutations.end(),
                                     [&](const Mutation& mutation) { return mutation.input == input.value.get(); });
    if (is_weight(input) && !changes) constants.insert(input.value.get());
  }
  for (const auto& node : graph.nodes) {
    if (!node->op.is_aten() || !is_pure(*node) || node->has_dim()) continue;
    bool constant = true;
    node->each_input([&](const Value* value) { constant = constant && constants.count(value); });
    if (!constant) continue;
    for (const auto& output : node->outputs) constants.insert(output.get());
  }
  return constants;
}

Rewriter::Rewriter(Graph& graph) : graph_(graph) {
  for (const auto& node : graph.nodes) node->each_input([&](const Value* value) { ++uses_[value]; });
  for (const Arg& output : graph.outputs) output.each_value([&](const Value* value) { ++uses_[value]; });
  for (const Mutation& mutation : graph.mutations) ++uses_[mutation.updated];
}

bool Rewriter::run(const std::function<Value*(Node&)>& consider) {
  std::vector<std::unique_ptr<Node>> nodes = std::exchange(graph_.nodes, {});
  for (auto& node : nodes) {
    node->each_input([&](Value*& value) { value = resolved(value); });
    Value* instead = node->op.is_aten() ? consider(*node) : nullptr;
    if (instead) replaced_[node->outputs.at(0).get()] = instead;
    changed_ = changed_ || instead;
    graph_.nodes.push_back(std::move(node));
  }
  for (const auto& [from, to] : replaced_) graph_.replace_uses(from, resolved(to));
  return changed_;
}

Value* Rewriter::resolved(Value* value) const {
  for (auto found = replaced_.find(value); found != replaced_.end(); found = replaced_.find(value))
    value = found->second;
  return value;
}

Value* Rewriter::add(const Node& like, const char* op, const char* overload, std::vector<Arg> args, Type type) {
  Node* node = graph_.add_aten(c10::Dispatcher::singleton().findSchemaOrThrow(op, overload), std::move(args));
  node->source = like.source;
  node->phase = like.phase;
  node->returns.push_back({});
  type.requires_grad = false;
  changed_ = true;
  return node->add_output(std::move(type));
}

size_t Rewriter::uses(const Value* value) const {
  auto found = uses_.find(value);
  return found == uses_.end() ? 0 : found->second;
}

Node* Rewriter::sole_maker(const Arg& arg, std::string_view name) const {
  if (arg.kind != Arg::Kind::Value || !arg.value->def || uses(arg.value) > 1) return nullptr;
  return op_is(*arg.value->def, name) && arg.value->index == 0 ? arg.value->def : nullptr;
}

bool op_is(const Node& node, std::string_view name) {
  return node.op.is_aten() && node.op.aten->operator_name().name == name;
}

bool is_float_tensor(const Arg& arg, size_t rank) {
  if (arg.kind != Arg::Kind::Value || !arg.value->type.is_tensor()) return false;
  const Type& type = arg.value->type;
  return type.dtype == at::kFloat && type.device.is_cpu() && type.sizes.size() == rank &&
         std::all_of(type.sizes.begin(), type.sizes.end(),
                     [](const Dim& size) { return size.is_number() && size.number() > 0; });
}

Type tensor_like(const Type& type, std::vector<Dim> sizes) {
  std::vector<Dim> strides(sizes.size(), Dim(1));
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = Dim(strides[i].number() * sizes[i].number());
  return Type::tensor(type.dtype, type.device, std::move(sizes), std::move(strides));
}

}  // namespace firesteel
