// Constant folding: find what depends on constants only, then compute the values that the rest of the graph reads.
#include "graph/passes/constant_folding.h"

#include <unordered_map>
#include <unordered_set>

#include "graph/passes/evaluate.h"
#include "graph/passes/memory_relations.h"
#include "graph/passes/purity.h"
#include "graph/passes/scalar_identities.h"

namespace firesteel {
namespace {

constexpr int64_t kLargest = 1024;  // elements of a folded tensor

bool is_small_tensor(const Type& type) {
  if (!type.is_tensor() || type.requires_grad || !(type.device.is_cpu() || type.device.is_cuda())) return false;
  auto bytes = type.nbytes();
  return bytes && *bytes <= kLargest * static_cast<int64_t>(c10::elementSize(type.dtype));
}

class ConstantFolder {
 public:
  explicit ConstantFolder(Graph& graph) : graph_(graph), memory_(graph) {}

  bool run() {
    for (const auto& node : graph_.nodes) find_constant(*node);
    std::vector<const Node*> targets = find_targets();
    Replacements folded;
    std::vector<Input> captured;
    for (const Node* node : targets) fold(*node, folded, captured);
    if (folded.empty()) return false;
    insert_inputs(std::move(captured));
    for (auto& node : graph_.nodes) folded.apply(*node);
    folded.apply_to_results(graph_);
    return true;
  }

 private:
  void find_constant(const Node& node) {
    // Uninitialized memory is no constant.
    bool constant = is_pure(node) && !node.has_dim() && !node.outputs.empty() &&
                    node.op.aten->operator_name().name.find("empty") == std::string::npos;
    bool reads = false;
    node.each_input([&](const Value* value) {
      constant = constant && constant_.count(value->def);
      reads = true;
    });
    for (const auto& output : node.outputs) constant = constant && is_small_tensor(output->type);
    if (!constant) return;
    constant_.insert(&node);
    if (reads) derived_.insert(&node);
  }

  // Computed constants that something else reads. A factory alone stays: kernels write its number without a load.
  // A result that escapes stays too: every call must hand out new memory.
  std::vector<const Node*> find_targets() const {
    std::unordered_set<const Value*> read;
    std::vector<const Node*> targets;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i];
      bool escapes = false, is_read = false;
      for (const auto& output : node.outputs) {
        escapes = escapes || memory_.escapes(output.get());
        is_read = is_read || read.count(output.get());
      }
      if (derived_.count(&node) && !escapes) {
        if (is_read) targets.push_back(&node);
      } else {
        node.each_input([&](const Value* value) { read.insert(value); });
      }
    }
    return {targets.rbegin(), targets.rend()};
  }

  // Null where it could not be computed, or came out as another type than recorded.
  const std::vector<at::Tensor>* compute(const Node& node) {
    auto [entry, is_new] = results_.try_emplace(&node);
    if (!is_new) return entry->second.empty() ? nullptr : &entry->second;
    bool known = true;
    node.each_input([&](const Value* value) { known = known && compute(*value->def); });
    if (!known) return nullptr;
    std::vector<at::Tensor> tensors;
    try {
      tensors = evaluate(node, [&](const Value* value) { return results_.at(value->def)[value->index]; });
    } catch (const std::exception&) {
      return nullptr;  // the graph raises it when run, as eager does
    }
    bool as_recorded = tensors.size() == node.outputs.size();
    for (size_t i = 0; as_recorded && i < tensors.size(); i++)
      as_recorded = has_type(tensors[i], node.outputs[i]->type);
    if (!as_recorded) return nullptr;
    return &(results_[&node] = std::move(tensors));
  }

  void fold(const Node& node, Replacements& folded, std::vector<Input>& captured) {
    const auto* tensors = compute(node);
    if (!tensors) return;
    for (size_t i = 0; i < node.outputs.size(); i++) {
      Input input;
      input.value = std::make_unique<Value>();
      input.value->type = node.outputs[i]->type;
      input.value->name = "folded";
      input.role = InputRole::Captured;
      input.captured = (*tensors)[i];
      folded.add(node.outputs[i].get(), input.value.get());
      captured.push_back(std::move(input));
    }
  }

  // Captured tensors stand before tangents and saved values; output aliases count inputs, so they move along.
  void insert_inputs(std::vector<Input> captured) {
    auto& inputs = graph_.inputs;
    auto is_late = [](const Input& input) {
      return input.role == InputRole::Tangent || input.role == InputRole::Saved;
    };
    auto place = std::find_if(inputs.begin(), inputs.end(), is_late);
    auto position = static_cast<int32_t>(place - inputs.begin());
    for (OutputAlias& alias : graph_.output_aliases) {
      bool of_input = alias.kind == OutputAlias::Kind::IsInput || alias.kind == OutputAlias::Kind::ViewOfInput;
      if (of_input && alias.of >= position) alias.of += static_cast<int32_t>(captured.size());
    }
    inputs.insert(place, std::make_move_iterator(captured.begin()), std::make_move_iterator(captured.end()));
    for (size_t i = 0; i < inputs.size(); i++) inputs[i].value->index = static_cast<uint32_t>(i);
  }

  Graph& graph_;
  MemoryRelations memory_;
  std::unordered_set<const Node*> constant_, derived_;
  std::unordered_map<const Node*, std::vector<at::Tensor>> results_;
};

}  // namespace

bool constant_folding(Graph& graph) {
  if (!is_functional(graph)) return false;
  bool simplified = drop_scalar_identities(graph);
  return ConstantFolder(graph).run() || simplified;
}

}  // namespace firesteel
