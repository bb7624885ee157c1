// Reads the nesting of inputs and outputs: the lines `takes …` and `return …`.
#include <fmt/format.h>

#include "graph/parser.h"

namespace firesteel {

void Parser::tree_children(Tree& parent, std::string_view close, std::vector<Leaf>& leaves) {
  bool keyed = parent.kind == TreeKind::Dict || (peek().kind == Token::Kind::String && peek(1).is_mark(":"));
  if (parent.kind == TreeKind::List || parent.kind == TreeKind::Tuple) keyed = false;
  separated(close, [&] {
    if (keyed) {
      if (peek().kind != Token::Kind::String) fail_expected("a key in quotes");
      parent.keys.push_back(take().text);
      expect_mark(":");
    }
    parent.children.push_back(tree(leaves));
  });
}

Tree Parser::tree(std::vector<Leaf>& leaves) {
  Depth depth(*this);
  static constexpr struct {
    const char *open, *close;
    TreeKind kind;
  } kBrackets[] = {{"(", ")", TreeKind::Tuple}, {"[", "]", TreeKind::List}, {"{", "}", TreeKind::Dict}};
  Tree result;
  for (const auto& bracket : kBrackets) {
    if (!take_mark(bracket.open)) continue;
    result.kind = bracket.kind;
    tree_children(result, bracket.close, leaves);
    return result;
  }
  Token token = peek();
  if (token.kind == Token::Kind::Value) {
    Value* value = value_use();
    leaves.push_back({token, value});
    return result;
  }
  bool named = token.kind == Token::Kind::Word || token.kind == Token::Kind::Backticks;
  std::string text = token.kind == Token::Kind::Backticks ? token.text : std::string(token.raw);
  if (named && peek(1).is_mark("(")) {
    at_ += 2;
    result.kind = TreeKind::Custom;
    result.text = std::move(text);
    tree_children(result, ")", leaves);
    return result;
  }
  if (take_word("leaf")) {
    leaves.push_back({token, arg(nullptr)});
    return result;
  }
  if (take_mark("-")) {
    if (peek().kind != Token::Kind::Number) fail_expected("a number");
    return Tree::constant(fmt::format("-{}", take().raw));
  }
  if (!named && token.kind != Token::Kind::Number && token.kind != Token::Kind::String)
    fail_expected("a value, a constant or a bracket");
  at_++;
  return Tree::constant(std::move(text));
}

void Parser::takes_line() {
  Token place = peek();
  std::vector<Leaf> leaves;
  graph_.input_tree = tree(leaves);
  std::vector<const Value*> arguments;
  for (const Input& input : graph_.inputs) {
    if (input.role == InputRole::Argument) arguments.push_back(input.value.get());
  }
  for (size_t i = 0; i < leaves.size(); i++) {
    bool in_order =
        leaves[i].arg.kind == Arg::Kind::Value && i < arguments.size() && leaves[i].arg.value == arguments[i];
    if (!in_order) fail(leaves[i].token, "expected the arguments of the graph in their order");
  }
  if (leaves.size() != arguments.size())
    fail(place, fmt::format("this nests {} values, but the graph has {} arguments", leaves.size(), arguments.size()));
  if (graph_.input_tree.kind == TreeKind::Leaf) fail(place, "expected a bracket: a single value needs no nesting");
}

void Parser::return_line() {
  if (peek().is_mark("}")) return;
  bool bracket = peek().is_mark("(") || peek().is_mark("[") || peek().is_mark("{");
  bool named = peek().kind == Token::Kind::Word || peek().kind == Token::Kind::Backticks;
  bool custom = named && peek(1).is_mark("(");
  bool constant = !custom && take_word("constant");
  if (!bracket && !custom && !constant) {
    do {
      take_word("leaf");
      graph_.outputs.push_back(arg(nullptr));
    } while (take_mark(","));
    return;
  }
  Token place = peek();
  std::vector<Leaf> leaves;
  graph_.output_tree = tree(leaves);
  if (constant && graph_.output_tree.kind != TreeKind::Constant) fail(place, "expected a constant");
  for (Leaf& leaf : leaves) graph_.outputs.push_back(std::move(leaf.arg));
}

}  // namespace firesteel
