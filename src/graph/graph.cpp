// Graph: recording, copying and rewiring.
#include "graph/graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace firesteel {

std::string SourceLocation::str() const {
  if (!file) return {};
  const std::string& path = file->path;
  size_t slash = path.find_last_of("/\\");
  std::string text = slash == std::string::npos ? path : path.substr(slash + 1);
  text += ':';
  text += std::to_string(line);
  if (!function.empty()) {
    text += ' ';
    text += function;
  }
  return text;
}

Arg Arg::of_const(c10::IValue constant) {
  Arg arg;
  if (constant.isNone()) return arg;
  arg.kind = Kind::Const;
  arg.constant = std::move(constant);
  return arg;
}

Arg Arg::of_dim(firesteel::Dim dim) {
  if (dim.is_number()) return of_const(dim.number());
  Arg arg;
  arg.kind = Kind::Dim;
  arg.dim = std::move(dim);
  return arg;
}

Arg Arg::list(std::vector<Arg> items) {
  Arg arg;
  arg.kind = Kind::List;
  arg.items = std::move(items);
  return arg;
}

bool Arg::has_dim() const {
  return kind == Kind::Dim || std::any_of(items.begin(), items.end(), [](const Arg& item) { return item.has_dim(); });
}

bool Node::has_dim() const {
  return std::any_of(args.begin(), args.end(), [](const Arg& arg) { return arg.has_dim(); });
}

Value* Node::add_output(Type type) {
  auto value = std::make_unique<Value>();
  value->def = this;
  value->index = static_cast<uint32_t>(outputs.size());
  value->type = std::move(type);
  outputs.push_back(std::move(value));
  return outputs.back().get();
}

Value* Graph::add_input(Type type, InputRole role, std::string name) {
  Input input;
  input.value = std::make_unique<Value>();
  input.value->index = static_cast<uint32_t>(inputs.size());
  input.value->type = std::move(type);
  input.value->name = std::move(name);
  input.role = role;
  inputs.push_back(std::move(input));
  return inputs.back().value.get();
}

Node* Graph::add_node(Op op) {
  nodes.push_back(std::make_unique<Node>());
  nodes.back()->op = std::move(op);
  return nodes.back().get();
}

Node* Graph::add_aten(const c10::OperatorHandle& op, std::vector<Arg> args) {
  nodes.push_back(std::make_unique<Node>());
  Node* node = nodes.back().get();
  node->op.aten.emplace(op);
  node->args = std::move(args);
  return node;
}

Graph Graph::clone() const {
  Graph copy;
  std::unordered_map<const Value*, Value*> counterpart;
  auto copy_value = [&](const Value& value, Node* def) {
    auto twin = std::make_unique<Value>(value);
    twin->def = def;
    counterpart.emplace(&value, twin.get());
    return twin;
  };
  auto rewire = [&](Value*& value) {
    if (!value) return;
    auto found = counterpart.find(value);
    FS_CHECK(found != counterpart.end(), "graph '{}' uses a value '{}' that is not defined before its use", name,
             value->name);
    value = found->second;
  };

  copy.name = name;
  copy.inputs.reserve(inputs.size());
  for (const Input& input : inputs)
    copy.inputs.push_back({copy_value(*input.value, nullptr), input.role, input.captured});
  copy.nodes.reserve(nodes.size());
  for (const auto& node : nodes) {
    auto twin = std::make_unique<Node>();
    twin->op = node->op;
    twin->args = node->args;
    twin->kwarg_names = node->kwarg_names;
    twin->returns = node->returns;
    twin->source = node->source;
    twin->phase = node->phase;
    twin->each_input(rewire);
    twin->outputs.reserve(node->outputs.size());
    for (const auto& output : node->outputs) twin->outputs.push_back(copy_value(*output, twin.get()));
    copy.nodes.push_back(std::move(twin));
  }
  copy.outputs = outputs;
  for (Arg& output : copy.outputs) output.each_value(rewire);
  copy.output_aliases = output_aliases;
  copy.mutations = mutations;
  for (Mutation& mutation : copy.mutations) {
    rewire(mutation.input);
    rewire(mutation.updated);
  }
  copy.input_tree = input_tree;
  copy.output_tree = output_tree;
  return copy;
}

void Graph::replace_uses(const Value* from, Value* to) {
  auto replace = [&](Value*& value) {
    if (value == from) value = to;
  };
  for (auto& node : nodes) node->each_input(replace);
  for (Arg& output : outputs) output.each_value(replace);
  for (Mutation& mutation : mutations) replace(mutation.updated);
}

void Graph::erase_nodes(const std::function<bool(const Node&)>& dead) {
  std::erase_if(nodes, [&](const std::unique_ptr<Node>& node) { return dead(*node); });
}

}  // namespace firesteel
