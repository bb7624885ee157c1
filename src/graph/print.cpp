// A graph as text. The form, which parse.cpp reads back:
//
//   graph encoder(%x: f32[8, 16], %w: f32[16, 16] captured, %g: f32[8, 16] tangent) {
//     takes ({"x": %x},)
//     %mm: f32[8, 16] = aten.mm(%x, %w)                             # model.py:12 forward
//     [%a: f32[4, 16], %b: f32[4, 16]] = aten.split.Tensor(%mm, 4)  # model.py:13 forward
//     backward:
//     %mul: f32[8, 16] = aten.mul.Tensor(%g, 2)
//     mutate %x <- %mm no_grad
//     alias 1 view of output 0
//     return (%mm, {"k": %b}, None)
//   }
//
// Arguments that equal the schema's default are left out; those that have a default and differ are named.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/graph.h"
#include "graph/print.h"
#include "graph/small_tensor.h"
#include "graph/text.h"

namespace firesteel {
namespace {

constexpr size_t kWidth = 110;         // a longer signature takes one line an input
constexpr size_t kSourceColumn = 100;  // sources line up, but never further right than this

// A name as the parser takes it: letters, digits, '_' and '.'.
std::string clean_name(std::string_view wish) {
  std::string name(wish);
  for (char& c : name) {
    auto byte = static_cast<unsigned char>(c);
    if (!std::isalnum(byte) && c != '_' && c != '.') c = '_';
  }
  return name;
}

std::string invented_name(const Node& node) {
  if (!node.op.is_aten()) return node.op.name.substr(node.op.name.rfind('.') + 1);
  const std::string& full = node.op.aten->operator_name().name;
  size_t colons = full.find("::");
  std::string name = colons == std::string::npos ? full : full.substr(colons + 2);
  return name.substr(std::min(name.find_first_not_of('_'), name.size()));
}

}  // namespace

const char* role_text(InputRole role) {
  switch (role) {
#define X(name, text)   \
  case InputRole::name: \
    return text;
    FIRESTEEL_INPUT_ROLES(X)
#undef X
  }
  return "argument";
}

ValueNames::ValueNames(const Graph& graph) {
  // Missing parts are passed over: the verifier prints broken graphs.
  for (const Input& input : graph.inputs) {
    if (input.value) add(*input.value, input.role == InputRole::Argument ? "arg" : role_text(input.role));
  }
  for (const auto& node : graph.nodes) {
    if (!node) continue;
    for (const auto& output : node->outputs) {
      if (output) add(*output, output->name.empty() ? invented_name(*node) : std::string());
    }
  }
}

void ValueNames::add(const Value& value, const std::string& invented) {
  std::string base = clean_name(value.name.empty() ? invented : value.name);
  if (base.empty()) base = "value";
  std::string name = base;
  for (size_t& count = counts_[base]; !taken_.insert(name).second;) name = fmt::format("{}_{}", base, ++count);
  names_.emplace(&value, std::move(name));
}

std::string ValueNames::operator()(const Value* value) const {
  auto found = names_.find(value);
  return found == names_.end() ? "%?" : "%" + found->second;
}

void append_arg(std::string& out, const Arg& arg, const ValueNames& names, const c10::Type* slot) {
  auto items = [&](const c10::Type* element) {
    for (size_t i = 0; i < arg.items.size(); i++) {
      if (i) out += ", ";
      if (arg.kind == Arg::Kind::Dict) out += quote_text(i < arg.keys.size() ? arg.keys[i] : "?") + ": ";
      append_arg(out, arg.items[i], names, element);
    }
  };
  switch (arg.kind) {
    case Arg::Kind::None:
      out += "None";
      break;
    case Arg::Kind::Value:
      out += names(arg.value);
      break;
    case Arg::Kind::Const:
      append_constant(out, arg.constant, slot);
      break;
    case Arg::Kind::Dim:
      out += arg.dim.str();
      break;
    case Arg::Kind::List:
      out += '[';
      items(element_slot(slot));
      out += ']';
      break;
    case Arg::Kind::Tuple:
      out += '(';
      items(nullptr);
      out += arg.items.size() == 1 ? ",)" : ")";
      break;
    case Arg::Kind::Dict:
      out += '{';
      items(nullptr);
      out += '}';
      break;
  }
}

namespace {

bool is_default(const Arg& arg, const c10::Argument& argument) {
  const auto& value = argument.default_value();
  if (!value) return false;
  if (arg.kind == Arg::Kind::None) return value->isNone();
  return arg.kind == Arg::Kind::Const && same_constant(arg.constant, *value);
}

void append_aten_args(std::string& out, const Node& node, const ValueNames& names) {
  const auto& arguments = node.op.aten->schema().arguments();
  bool positional = true;
  bool first = true;
  for (size_t i = 0; i < node.args.size(); i++) {
    const c10::Argument* argument = i < arguments.size() ? &arguments[i] : nullptr;
    if (argument && (argument->kwarg_only() || argument->default_value())) positional = false;
    if (argument && is_default(node.args[i], *argument)) continue;
    if (!first) out += ", ";
    first = false;
    if (argument && !positional) out += argument->name() + "=";
    append_arg(out, node.args[i], names, argument ? argument->real_type().get() : nullptr);
  }
}

void append_torch_args(std::string& out, const Node& node, const ValueNames& names) {
  size_t named = std::min(node.kwarg_names.size(), node.args.size());
  size_t positional = node.args.size() - named;
  for (size_t i = 0; i < node.args.size(); i++) {
    if (i) out += ", ";
    if (i >= positional) {
      const std::string& name = node.kwarg_names[i - positional];
      out += (is_identifier(name) ? name : quote_text(name)) + "=";
    }
    append_arg(out, node.args[i], names, nullptr);
  }
}

void append_outputs(std::string& out, const Node& node, const ValueNames& names) {
  auto value = [&](size_t index) {
    if (index >= node.outputs.size() || !node.outputs[index]) return std::string("%?");
    const Value& output = *node.outputs[index];
    return names(&output) + ": " + output.type.str();
  };
  size_t next = 0;
  for (size_t r = 0; r < node.returns.size(); r++) {
    if (r) out += ", ";
    int32_t count = node.returns[r].list_count;
    if (count < 0) {
      out += value(next++);
      continue;
    }
    out += '[';
    for (int32_t i = 0; i < count; i++) {
      if (i) out += ", ";
      out += value(next++);
    }
    out += ']';
  }
  // Only a broken graph has outputs that no return counts; verify() shows them too.
  for (; next < node.outputs.size(); next++) {
    if (next || !node.returns.empty()) out += ", ";
    out += value(next);
  }
}

// A call that is not ATen must not read as an operator, nor as another kind of line.
bool needs_quotes(const std::string& op_name) {
  static const std::unordered_set<std::string> kLineWords = {"takes",  "mutate",  "alias",
                                                             "return", "forward", "backward"};
  return !is_dotted_name(op_name) || kLineWords.count(op_name) || find_operator(op_name).has_value() ||
         op_name.starts_with("aten.");
}

}  // namespace

std::optional<c10::OperatorHandle> find_operator(std::string_view text) {
  size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string name = fmt::format("{}::{}", text.substr(0, dot), text.substr(dot + 1));
  std::string overload;
  size_t second = name.find('.');
  if (second != std::string::npos) {
    overload = name.substr(second + 1);
    name.resize(second);
  }
  return c10::Dispatcher::singleton().findSchema({std::move(name), std::move(overload)});
}

std::string node_text(const Node& node, const ValueNames& names) {
  std::string out;
  append_outputs(out, node, names);
  if (!out.empty()) out += " = ";
  std::string op = node.op.str();
  out += !node.op.is_aten() && needs_quotes(op) ? quote_text(op) : op;
  out += '(';
  node.op.is_aten() ? append_aten_args(out, node, names) : append_torch_args(out, node, names);
  out += ')';
  return out;
}

namespace {

class GraphPrinter {
 public:
  explicit GraphPrinter(const Graph& graph) : graph_(graph), names_(graph) {}

  std::string print() {
    input_tree_line();
    node_lines();
    for (const Mutation& mutation : graph_.mutations) mutation_line(mutation);
    alias_lines();
    return_line();
    std::string out = signature();
    size_t column = source_column();
    for (const auto& [text, source] : lines_) {
      out += "  " + text;
      if (!source.empty()) out += fmt::format("{:{}}# {}", "", column > text.size() ? column - text.size() : 2, source);
      out += '\n';
    }
    return out + "}\n";
  }

 private:
  struct Line {
    std::string text;
    std::string source;
  };

  void line(std::string text, std::string source = {}) { lines_.push_back({std::move(text), std::move(source)}); }

  std::string signature() const {
    std::vector<std::string> inputs;
    size_t width = 0;
    for (const Input& input : graph_.inputs) {
      std::string text = names_(input.value.get()) + ": " + input.value->type.str();
      if (input.role != InputRole::Argument) text += fmt::format(" {}", role_text(input.role));
      if (auto data = small_tensor_text(input)) text += " = " + *data;
      width += text.size() + 2;
      inputs.push_back(std::move(text));
    }
    std::string name = is_identifier(graph_.name) ? graph_.name : quote_text(graph_.name);
    if (width + name.size() + 10 <= kWidth) return fmt::format("graph {}({}) {{\n", name, fmt::join(inputs, ", "));
    return fmt::format("graph {}(\n    {}) {{\n", name, fmt::join(inputs, ",\n    "));
  }

  size_t source_column() const {
    size_t column = 0;
    for (const Line& line : lines_) {
      if (!line.source.empty() && line.text.size() < kSourceColumn) column = std::max(column, line.text.size());
    }
    return column + 2;
  }

  void input_tree_line() {
    if (graph_.input_tree.kind == TreeKind::Leaf) return;
    std::vector<const Value*> arguments;
    for (const Input& input : graph_.inputs) {
      if (input.role == InputRole::Argument) arguments.push_back(input.value.get());
    }
    std::string out = "takes ";
    append_tree(out, graph_.input_tree,
                [&](std::string& text, size_t i) { text += i < arguments.size() ? names_(arguments[i]) : "%?"; });
    line(std::move(out));
  }

  void node_lines() {
    Phase phase = Phase::Forward;
    for (const auto& node : graph_.nodes) {
      if (node->phase != phase) line(node->phase == Phase::Forward ? "forward:" : "backward:");
      phase = node->phase;
      line(node_text(*node, names_), node->source ? source_text(*node->source) : std::string());
    }
  }

  // One line, whatever stands in a path.
  static std::string source_text(const SourceLocation& source) {
    std::string text = source.str();
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20) c = '?';
    }
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

  void mutation_line(const Mutation& mutation) {
    line(fmt::format("mutate {} <- {}{}{}", names_(mutation.input), names_(mutation.updated),
                     mutation.under_no_grad ? " no_grad" : "", mutation.metadata_only ? " metadata" : ""));
  }

  void alias_lines() {
    size_t before = lines_.size();
    for (size_t i = 0; i < graph_.output_aliases.size(); i++) {
      const OutputAlias& alias = graph_.output_aliases[i];
      bool is_input = alias.of >= 0 && static_cast<size_t>(alias.of) < graph_.inputs.size();
      std::string input = is_input ? names_(graph_.inputs[alias.of].value.get()) : "%?";
      switch (alias.kind) {
        case OutputAlias::Kind::Fresh:
          break;
        case OutputAlias::Kind::IsInput:
          line(fmt::format("alias {} is {}", i, input));
          break;
        case OutputAlias::Kind::ViewOfInput:
          line(fmt::format("alias {} view of {}", i, input));
          break;
        case OutputAlias::Kind::ViewOfOutput:
          line(fmt::format("alias {} view of output {}", i, alias.of));
          break;
      }
    }
    if (!graph_.output_aliases.empty() && lines_.size() == before) line("alias none");
  }

  void return_line() {
    std::string out = "return";
    if (graph_.output_tree.kind == TreeKind::Leaf) {
      for (size_t i = 0; i < graph_.outputs.size(); i++) {
        out += i ? ", " : " ";
        if (!reads_as_flat(graph_.outputs[i])) out += "leaf ";
        append_arg(out, graph_.outputs[i], names_, nullptr);
      }
    } else {
      out += graph_.output_tree.kind == TreeKind::Constant ? " constant " : " ";
      append_tree(out, graph_.output_tree, [&](std::string& text, size_t i) { output_leaf(text, i); });
    }
    line(std::move(out));
  }

  // Without the mark, brackets and names would read as the tree of a nested return.
  static bool reads_as_flat(const Arg& output) {
    if (output.kind == Arg::Kind::Value || output.kind == Arg::Kind::None) return true;
    if (output.kind != Arg::Kind::Const) return false;
    const c10::IValue& value = output.constant;
    return value.isInt() || value.isDouble() || value.isBool() || value.isString();
  }

  // A constant that is a leaf is marked: without the mark it would be part of the structure.
  void output_leaf(std::string& text, size_t index) {
    if (index >= graph_.outputs.size()) {
      text += "%?";
      return;
    }
    const Arg& output = graph_.outputs[index];
    if (output.kind != Arg::Kind::Value) text += "leaf ";
    append_arg(text, output, names_, nullptr);
  }

  const Graph& graph_;
  ValueNames names_;
  std::vector<Line> lines_;
};

}  // namespace

std::string Graph::str() const { return GraphPrinter(*this).print(); }

}  // namespace firesteel
