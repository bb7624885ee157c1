// The verifier: every rule that graph.h states, checked in the order of the text.
#include "graph/verify.h"

#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/print.h"
#include "graph/text.h"

namespace firesteel {
namespace {

bool holds_tensor(const c10::IValue& value) {
  if (value.isTensor()) return true;
  if (!value.isList()) return false;
  for (const c10::IValue& item : value.toListRef()) {
    if (holds_tensor(item)) return true;
  }
  return false;
}

bool is_number(const c10::IValue& value) { return value.isScalar() || value.isUnsigned() || value.isSymInt(); }

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::optional<std::string> run() {
    check_inputs();
    for (const auto& node : graph_.nodes) {
      if (broken_) break;
      check_node(node.get());
    }
    if (!broken_) check_mutations();
    if (!broken_) check_outputs();
    return broken_;
  }

 private:
  // Keeps the first rule that does not hold. Cold: the text of the node is made only here.
  void fail(std::string rule) {
    if (broken_) return;
    broken_ = std::move(rule);
    if (!node_) return;
    ValueNames names(graph_);
    *broken_ += fmt::format("\n  in: {}", node_text(*node_, names));
    if (node_->source) *broken_ += fmt::format("\n  from: {}", node_->source->str());
  }

  void check_type(const Type& type) {
    if (type.is_tensor() && type.sizes.size() != type.strides.size())
      fail(fmt::format("a tensor type has {} sizes but {} strides", type.sizes.size(), type.strides.size()));
  }

  void define(const Value* value) {
    check_type(value->type);
    if (!defined_.insert(value).second) fail("a value is defined twice");
  }

  void check_inputs() {
    size_t arguments = 0;
    for (const Input& input : graph_.inputs) {
      if (!input.value) return fail("an input of the graph has no value");
      if (input.value->def) fail("an input of the graph says that a node defines it");
      if (input.captured.defined() && input.role != InputRole::Captured)
        fail("an input that is not captured holds a tensor");
      arguments += input.role == InputRole::Argument;
      define(input.value.get());
    }
    check_tree(graph_.input_tree, arguments, "input_tree", "arguments");
  }

  void check_tree(const Tree& tree, size_t leaves, const char* name, const char* of) {
    if (tree.kind != TreeKind::Leaf && tree.leaf_count() != leaves)
      fail(fmt::format("{} has {} leaves for {} {}", name, tree.leaf_count(), leaves, of));
    check_tree_shape(tree, name);
  }

  void check_tree_shape(const Tree& tree, const char* name) {
    bool childless = tree.kind == TreeKind::Leaf || tree.kind == TreeKind::Constant;
    if (childless && !tree.children.empty()) fail(fmt::format("{} has a leaf or constant with children", name));
    bool keyed = tree.kind == TreeKind::Dict || !tree.keys.empty();
    if (keyed && tree.keys.size() != tree.children.size())
      fail(fmt::format("{} has a dict with {} keys for {} children", name, tree.keys.size(), tree.children.size()));
    for (const Tree& child : tree.children) check_tree_shape(child, name);
  }

  void check_arg(const Arg& arg) {
    switch (arg.kind) {
      case Arg::Kind::None:
        break;
      case Arg::Kind::Value:
        if (!arg.value || !defined_.count(arg.value)) fail("a value is used that is not defined before its use");
        break;
      case Arg::Kind::Const:
        if (arg.constant.isNone()) fail("a constant None stands as Const, not as None");
        if (holds_tensor(arg.constant)) fail("a constant is a tensor: tensors are inputs of the graph");
        break;
      case Arg::Kind::Dim:
        if (arg.dim.is_number()) fail("a number stands as Dim, not as Const");
        break;
      case Arg::Kind::Dict:
        if (arg.keys.size() != arg.items.size()) fail("a dict argument has not one key an item");
        [[fallthrough]];
      case Arg::Kind::List:
      case Arg::Kind::Tuple:
        for (const Arg& item : arg.items) check_arg(item);
        break;
    }
  }

  void check_node(const Node* node) {
    node_ = node;
    if (!node) return fail("a node is missing");
    for (const Arg& arg : node->args) check_arg(arg);
    if (broken_) return;
    check_returns(*node);
    node->op.is_aten() ? check_aten(*node) : check_torch(*node);
    for (size_t i = 0; i < node->outputs.size() && !broken_; i++) {
      const Value* output = node->outputs[i].get();
      if (!output) return fail("an output of a node is missing");
      if (output->def != node || output->index != i) fail("an output does not name its node and number");
      define(output);
    }
    node_ = nullptr;
  }

  void check_returns(const Node& node) {
    size_t counted = 0;
    for (const Return& result : node.returns) counted += result.list_count < 0 ? 1 : result.list_count;
    if (counted != node.outputs.size())
      fail(fmt::format("a node's returns count {} values, but it has {}", counted, node.outputs.size()));
  }

  void check_torch(const Node& node) {
    if (node.op.name.empty()) fail("a node has neither an operator nor a name");
    if (node.kwarg_names.size() > node.args.size()) fail("a node names more arguments than it has");
  }

  void check_aten(const Node& node) {
    const c10::FunctionSchema& schema = node.op.aten->schema();
    if (!node.kwarg_names.empty()) fail("an ATen node names arguments: they go in schema order");
    if (node.args.size() != schema.arguments().size())
      return fail(
          fmt::format("an ATen node has {} arguments, its schema {}", node.args.size(), schema.arguments().size()));
    if (node.returns.size() != schema.returns().size())
      return fail(
          fmt::format("an ATen node has {} returns, its schema {}", node.returns.size(), schema.returns().size()));
    for (size_t i = 0; i < node.args.size(); i++) check_slot(node.args[i], schema.arguments()[i]);
    for (size_t r = 0; r < node.returns.size(); r++) {
      bool is_list = schema.returns()[r].type()->kind() == c10::TypeKind::ListType;
      if (is_list != (node.returns[r].list_count >= 0))
        fail(fmt::format("return {} is a list in one of node and schema only", r));
    }
    if (!graph_.mutations.empty() && schema.is_mutable()) check_writes_to_copies(node, schema);
  }

  // A custom operator that writes does so to copies made for it; writes to inputs are mutations.
  void check_writes_to_copies(const Node& node, const c10::FunctionSchema& schema) {
    for (size_t i = 0; i < node.args.size(); i++) {
      if (!schema.arguments()[i].alias_info() || !schema.arguments()[i].alias_info()->isWrite()) continue;
      node.args[i].each_value([&](const Value* value) {
        bool is_copy = value->def && value->def->op.is_aten() && value->def->op.aten->schema().name() == "aten::clone";
        if (!is_copy) fail("a functional graph has a node that writes to something other than a copy of its own");
      });
    }
  }

  // Only mistakes that cannot be meant: a number where a tensor list stands, a tensor where a string stands.
  void check_slot(const Arg& arg, const c10::Argument& argument) {
    const c10::Type* slot = argument.type().get();
    bool optional = slot->kind() == c10::TypeKind::OptionalType;
    const c10::Type* kind = slot_kind(slot);
    auto wrong = [&](const char* what) {
      fail(fmt::format("argument '{}' ({}) holds {}", argument.name(), slot->str(), what));
    };
    switch (kind->kind()) {
      case c10::TypeKind::TensorType:
        // A plain number in a tensor's place is a wrapped number; None may stand for an undefined tensor.
        if (arg.kind == Arg::Kind::Const && !is_number(arg.constant)) wrong("a constant that is no number");
        if (arg.kind > Arg::Kind::Const && arg.kind != Arg::Kind::Dim) wrong("a list");
        break;
      case c10::TypeKind::ListType:
        if (arg.kind == Arg::Kind::Value && arg.value->type.is_tensor()) wrong("a tensor");
        if (arg.kind == Arg::Kind::None && !optional) wrong("None");
        if (element_slot(kind)->kind() == c10::TypeKind::TensorType && arg.kind == Arg::Kind::Const)
          wrong("a constant");
        break;
      case c10::TypeKind::StringType:
      case c10::TypeKind::DeviceObjType:
        if (arg.kind == Arg::Kind::Value && arg.value->type.is_tensor()) wrong("a tensor");
        break;
      default:
        break;
    }
  }

  void check_mutations() {
    std::unordered_set<const Value*> data, metadata;
    std::unordered_set<const Value*> inputs;
    for (const Input& input : graph_.inputs) inputs.insert(input.value.get());
    for (const Mutation& mutation : graph_.mutations) {
      if (!mutation.input || !inputs.count(mutation.input))
        return fail("a mutation changes something that is no input");
      if (!mutation.updated || !defined_.count(mutation.updated))
        return fail("a mutation takes a value that is not defined");
      if (!mutation.input->type.is_tensor() || !mutation.updated->type.is_tensor())
        fail("a mutation is not of tensors");
      auto& seen = mutation.metadata_only ? metadata : data;
      if (!seen.insert(mutation.input).second) fail("an input is changed by two mutations");
    }
  }

  void check_outputs() {
    for (const Arg& output : graph_.outputs) check_arg(output);
    check_tree(graph_.output_tree, graph_.outputs.size(), "output_tree", "outputs");
    const auto& aliases = graph_.output_aliases;
    if (!aliases.empty() && aliases.size() != graph_.outputs.size())
      return fail(fmt::format("output_aliases has {} entries for {} outputs", aliases.size(), graph_.outputs.size()));
    for (size_t i = 0; i < aliases.size(); i++) check_alias(aliases[i], i);
  }

  void check_alias(const OutputAlias& alias, size_t index) {
    if (alias.kind == OutputAlias::Kind::Fresh) return;
    bool of_output = alias.kind == OutputAlias::Kind::ViewOfOutput;
    size_t limit = of_output ? graph_.outputs.size() : graph_.inputs.size();
    if (alias.of < 0 || static_cast<size_t>(alias.of) >= limit)
      return fail(fmt::format("the alias of output {} names {} {}, which does not exist", index,
                              of_output ? "output" : "input", alias.of));
    if (of_output && static_cast<size_t>(alias.of) == index)
      fail(fmt::format("output {} is said to be a view of itself", index));
  }

  const Graph& graph_;
  const Node* node_ = nullptr;
  std::unordered_set<const Value*> defined_;
  std::optional<std::string> broken_;
};

}  // namespace

std::optional<std::string> broken_rule(const Graph& graph) { return Verifier(graph).run(); }

void verify(const Graph& graph) {
  if (auto rule = broken_rule(graph)) FS_RAISE(InternalError, "graph '{}' is malformed: {}", graph.name, *rule);
}

}  // namespace firesteel
