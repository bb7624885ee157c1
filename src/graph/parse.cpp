// Reads graph text line by line; print.cpp shows the form.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/parser.h"
#include "graph/print.h"
#include "graph/small_tensor.h"
#include "graph/verify.h"

namespace firesteel {

Graph Parser::parse() {
  signature();
  expect_mark("{");
  while (line()) {
  }
  finish_aliases();
  expect_mark("}");
  if (peek().kind != Token::Kind::End) fail_expected("nothing after the graph");
  if (auto rule = broken_rule(graph_)) fail(tokens_.list.front(), *rule);
  return std::move(graph_);
}

void Parser::signature() {
  expect_word("graph");
  bool named = peek().kind == Token::Kind::Word || peek().kind == Token::Kind::String;
  if (!named) fail_expected("the graph's name");
  Token name = take();
  graph_.name = name.kind == Token::Kind::String ? name.text : std::string(name.raw);
  expect_mark("(");
  separated(")", [&] { input(); });
}

void Parser::define(const Token& token, Value* value) {
  value->name = token.text;
  if (!values_.emplace(token.text, value).second) fail(token, fmt::format("{} is defined twice", token.raw));
}

void Parser::input() {
  static const std::pair<const char*, InputRole> kRoles[] = {
#define X(name, text) {text, InputRole::name},
      FIRESTEEL_INPUT_ROLES(X)
#undef X
  };
  PendingOutput declared = output();
  InputRole role = InputRole::Argument;
  for (auto [text, named] : kRoles) {
    if (take_word(text)) {
      role = named;
      break;
    }
  }
  Value* value = graph_.add_input(declared.type, role);
  define(declared.token, value);
  if (role == InputRole::Captured && take_mark("=")) graph_.inputs.back().captured = small_tensor(declared.type);
}

at::Tensor Parser::small_tensor(const Type& type) {
  Token place = peek();
  auto count = small_tensor_count(type);
  if (!count) fail(place, fmt::format("a tensor of type {} cannot be written as data", type.str()));
  std::vector<c10::Scalar> elements;
  expect_mark("[");
  separated("]", [&] {
    Token token = peek();
    Arg element = arg(nullptr);
    if (element.kind != Arg::Kind::Const || !element.constant.isScalar()) fail(token, "expected a number");
    elements.push_back(element.constant.toScalar());
  });
  if (*count != static_cast<int64_t>(elements.size()))
    fail(place, fmt::format("{} takes {} elements, not {}", type.str(), *count, elements.size()));
  try {
    return make_small_tensor(type, elements);
  } catch (const std::exception&) {
    fail(place, fmt::format("an element does not fit {}", dtype_text(type.dtype)));
  }
}

// One line of the body; false once the return line was read.
bool Parser::line() {
  if (peek().kind == Token::Kind::Value || peek().is_mark("[") || peek().kind == Token::Kind::String) {
    node_line();
    return true;
  }
  if (peek().kind != Token::Kind::Word) fail_expected("a node, `mutate`, `alias` or `return`");
  for (auto [word, phase] : {std::pair("forward", Phase::Forward), std::pair("backward", Phase::Backward)}) {
    if (peek().is_word(word) && peek(1).is_mark(":")) {
      at_ += 2;
      phase_ = phase;
      return true;
    }
  }
  if (take_word("return")) {
    return_line();
    return false;
  }
  if (take_word("takes")) {
    takes_line();
  } else if (take_word("mutate")) {
    mutate_line();
  } else if (take_word("alias")) {
    alias_line();
  } else {
    node_line();
  }
  return true;
}

void Parser::node_line() {
  Node* node = graph_.add_node({});
  node->phase = phase_;
  std::vector<PendingOutput> pending;
  if (peek().kind == Token::Kind::Value || peek().is_mark("[")) {
    outputs(*node, pending);
    expect_mark("=");
  }
  call(*node);
  // Named only now: a node cannot take its own results.
  for (PendingOutput& output : pending) define(output.token, node->add_output(std::move(output.type)));
  node->source = source_on_line(tokens_.list[at_ - 1].line);
}

Parser::PendingOutput Parser::output() {
  if (peek().kind != Token::Kind::Value) fail_expected("a value such as `%x`");
  Token token = take();
  expect_mark(":");
  return {std::move(token), type()};
}

void Parser::outputs(Node& node, std::vector<PendingOutput>& pending) {
  do {
    Return result;
    if (take_mark("[")) {
      size_t before = pending.size();
      separated("]", [&] { pending.push_back(output()); });
      result.list_count = static_cast<int32_t>(pending.size() - before);
    } else {
      pending.push_back(output());
    }
    node.returns.push_back(result);
  } while (take_mark(","));
}

void Parser::call(Node& node) {
  if (peek().kind != Token::Kind::Word && peek().kind != Token::Kind::String) fail_expected("an operator");
  Token name = take();
  if (name.kind == Token::Kind::String) {
    node.op.name = name.text;
  } else if (auto handle = find_operator(name.raw)) {
    node.op.aten.emplace(*handle);
  } else if (name.raw.starts_with("aten.")) {
    fail_unknown_operator(name);
  } else {
    node.op.name = std::string(name.raw);
  }
  expect_mark("(");
  node.op.is_aten() ? aten_args(node, name) : torch_args(node);
}

void Parser::fail_unknown_operator(const Token& name) const {
  // Most often the overload is missing or wrong: say which there are.
  std::string base(name.raw.substr(0, name.raw.find('.', sizeof("aten."))));
  std::string wanted = fmt::format("aten::{}", base.substr(sizeof("aten.") - 1));
  std::set<std::string> overloads;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (op.name == wanted)
      overloads.insert(op.overload_name.empty() ? base : fmt::format("{}.{}", base, op.overload_name));
  }
  if (overloads.empty()) fail(name, fmt::format("there is no operator `{}`", name.raw));
  fail(name, fmt::format("there is no operator `{}`; there is `{}`", name.raw, fmt::join(overloads, "`, `")));
}

void Parser::aten_args(Node& node, const Token& name) {
  const c10::FunctionSchema& schema = node.op.aten->schema();
  const auto& arguments = schema.arguments();
  std::vector<std::optional<Arg>> given(arguments.size());
  size_t next = 0;
  bool named = false;
  separated(")", [&] {
    Token place = peek();
    size_t index = next;
    if (place.kind == Token::Kind::Word && peek(1).is_mark("=")) {
      auto found = schema.argumentIndexWithName(place.raw);
      if (!found) fail(place, fmt::format("{} has no argument `{}`", name.raw, place.raw));
      index = static_cast<size_t>(*found);
      named = true;
      at_ += 2;
    } else {
      if (named) fail(place, "expected name=value: a named argument stands before");
      if (next >= arguments.size()) fail(place, fmt::format("{} takes {} arguments", name.raw, arguments.size()));
      if (arguments[next].kwarg_only()) fail(place, fmt::format("`{}` must be given by name", arguments[next].name()));
      next++;
    }
    if (given[index]) fail(place, fmt::format("argument `{}` is given twice", arguments[index].name()));
    given[index] = arg(arguments[index].real_type().get());
  });
  for (size_t i = 0; i < arguments.size(); i++) {
    const auto& fallback = arguments[i].default_value();
    if (!given[i] && !fallback) fail(name, fmt::format("{} needs its argument `{}`", name.raw, arguments[i].name()));
    node.args.push_back(given[i] ? std::move(*given[i]) : Arg::of_const(*fallback));
  }
}

void Parser::torch_args(Node& node) {
  separated(")", [&] {
    Token place = peek();
    bool word = place.kind == Token::Kind::Word || place.kind == Token::Kind::String;
    if (word && peek(1).is_mark("=")) {
      node.kwarg_names.push_back(place.kind == Token::Kind::String ? place.text : std::string(place.raw));
      at_ += 2;
    } else if (!node.kwarg_names.empty()) {
      fail(place, "expected name=value: a named argument stands before");
    }
    node.args.push_back(arg(nullptr));
  });
}

void Parser::mutate_line() {
  Mutation mutation;
  mutation.input = value_use();
  expect_mark("<-");
  mutation.updated = value_use();
  mutation.under_no_grad = take_word("no_grad");
  mutation.metadata_only = take_word("metadata");
  graph_.mutations.push_back(mutation);
}

void Parser::alias_line() {
  aliases_known_ = true;
  if (take_word("none")) return;
  PendingAlias pending;
  pending.token = peek();
  pending.output = expect_index("an output's number");
  bool is_input = take_word("is");
  if (!is_input) {
    expect_word("view");
    expect_word("of");
  }
  if (!is_input && take_word("output")) {
    pending.alias = {OutputAlias::Kind::ViewOfOutput, static_cast<int32_t>(expect_index("an output's number"))};
  } else {
    Token place = peek();
    const Value* value = value_use();
    auto found = std::find_if(graph_.inputs.begin(), graph_.inputs.end(),
                              [&](const Input& input) { return input.value.get() == value; });
    if (found == graph_.inputs.end()) fail(place, fmt::format("{} is no input of the graph", place.raw));
    pending.alias = {is_input ? OutputAlias::Kind::IsInput : OutputAlias::Kind::ViewOfInput,
                     static_cast<int32_t>(found - graph_.inputs.begin())};
  }
  aliases_.push_back(std::move(pending));
}

void Parser::finish_aliases() {
  if (!aliases_known_) return;
  graph_.output_aliases.resize(graph_.outputs.size());
  for (const PendingAlias& pending : aliases_) {
    if (pending.output >= graph_.outputs.size())
      fail(pending.token, fmt::format("there is no output {}", pending.output));
    graph_.output_aliases[pending.output] = pending.alias;
  }
}

// `# model.py:12 forward` at the end of a node's line; any other comment is just a comment.
SourceRef Parser::source_on_line(size_t line) {
  auto comment = tokens_.comments.find(line);
  if (comment == tokens_.comments.end()) return nullptr;
  std::string_view text = comment->second;
  while (text.ends_with(' ') || text.ends_with('\r')) text.remove_suffix(1);
  auto [known, is_new] = sources_.try_emplace(text);
  if (!is_new) return known->second;
  size_t colon = std::string_view::npos, end = 0;
  for (size_t i = 0; i < text.size() && colon == std::string_view::npos; i++) {
    if (text[i] != ':') continue;
    end = std::min(text.find_first_not_of("0123456789", i + 1), text.size());
    // Nine digits at most, so that the line number fits an int.
    if (end > i + 1 && end <= i + 10 && (end == text.size() || text[end] == ' ')) colon = i;
  }
  if (colon == std::string_view::npos) return nullptr;
  std::string path(text.substr(0, colon));
  auto& file = files_[path];
  if (!file) file = std::make_shared<SourceFile>(SourceFile{path});
  auto location = std::make_shared<SourceLocation>();
  location->file = file;
  location->line = std::stoi(std::string(text.substr(colon + 1, end - colon - 1)));
  if (end < text.size()) location->function = std::string(text.substr(end + 1));
  known->second = location;
  return known->second;
}

Graph parse_graph(std::string_view text) { return Parser(text).parse(); }

}  // namespace firesteel
