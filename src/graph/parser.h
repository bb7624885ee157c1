// The reader of graph text: recursive descent over tokens.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/lexer.h"

namespace firesteel {

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokenize(text)) {}
  Graph parse();

 private:
  // What stands in a tree's leaf: a value, or a constant marked by `leaf`.
  struct Leaf {
    Token token;
    Arg arg;
  };
  struct PendingAlias {
    Token token;
    size_t output;
    OutputAlias alias;
  };
  struct PendingOutput {
    Token token;
    Type type;
  };

  // Tokens (parse_parts.cpp).
  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool take_mark(std::string_view mark);
  bool take_word(std::string_view word);
  void expect_mark(std::string_view mark);
  void expect_word(std::string_view word);
  size_t expect_index(const char* what);
  [[noreturn]] void fail(const Token& token, const std::string& message) const;
  [[noreturn]] void fail_expected(const std::string& what) const;
  template <class F>
  void separated(std::string_view close, F&& item);  // item, item, … close; a last comma may stand
  // Reading goes deeper with every bracket; past a limit the text is refused, not the stack overrun.
  struct Depth {
    Parser& parser;
    explicit Depth(Parser& parser);
    ~Depth() { parser.depth_--; }
  };

  // Parts of lines (parse_parts.cpp).
  Dim dim();
  Dim dim_term(bool negative);
  Dim dim_factor();
  Type type();
  c10::Device device();
  c10::IValue number(bool negative);
  std::optional<c10::IValue> word_constant(const c10::Type* slot);
  Arg arg(const c10::Type* slot);
  Arg list_arg(const c10::Type* slot);
  Value* value_use();

  // Trees (parse_trees.cpp).
  Tree tree(std::vector<Leaf>& leaves);
  void tree_children(Tree& tree, std::string_view close, std::vector<Leaf>& leaves);
  void takes_line();
  void return_line();

  // Lines (parse.cpp).
  void signature();
  void input();
  at::Tensor small_tensor(const Type& type);
  bool line();
  void node_line();
  void outputs(Node& node, std::vector<PendingOutput>& pending);
  PendingOutput output();
  void call(Node& node);
  void aten_args(Node& node, const Token& name);
  void torch_args(Node& node);
  [[noreturn]] void fail_unknown_operator(const Token& name) const;
  void mutate_line();
  void alias_line();
  void finish_aliases();
  void define(const Token& token, Value* value);
  SourceRef source_on_line(size_t line);

  Tokens tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  Graph graph_;
  Phase phase_ = Phase::Forward;
  bool aliases_known_ = false;
  std::vector<PendingAlias> aliases_;
  std::unordered_map<std::string, Value*> values_;
  std::unordered_map<std::string_view, SourceRef> sources_;
  std::unordered_map<std::string, std::shared_ptr<const SourceFile>> files_;
};

template <class F>
void Parser::separated(std::string_view close, F&& item) {
  while (!take_mark(close)) {
    item();
    if (take_mark(close)) return;
    if (!take_mark(",")) fail_expected("`,` or `" + std::string(close) + "`");
  }
}

}  // namespace firesteel
