// The text of trees: `(_, [_, 3], {"a": _}, Point(_, _))`.
#include <cctype>

#include "graph/text.h"

namespace firesteel {
namespace {

// [-]digits[.digits][e[+-]digits], as the lexer reads a number.
bool is_number(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  auto digits = [&] {
    size_t start = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) at++;
    return at > start;
  };
  if (!digits()) return false;
  if (at < text.size() && text[at] == '.') {
    at++;
    digits();
  }
  if (at < text.size() && text[at] == 'e') {
    at++;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) at++;
    if (!digits()) return false;
  }
  return at == text.size();
}

bool is_simple_string(std::string_view text) {
  if (text.size() < 2 || (text[0] != '"' && text[0] != '\'') || text.back() != text[0]) return false;
  for (unsigned char c : text.substr(1, text.size() - 2)) {
    if (c < 0x20 || c == 0x7f || c == '\\' || c == static_cast<unsigned char>(text[0])) return false;
  }
  return true;
}

// A spelling that would not read back as one word stands between backticks.
std::string constant_text(const std::string& text) {
  bool reserved = text == "_" || text == "leaf";
  bool plain = is_number(text) || is_simple_string(text) || (is_dotted_name(text) && !reserved);
  return plain ? text : quote_text(text, '`');
}

struct TreePrinter {
  std::string& out;
  const LeafText& leaf;
  size_t next_leaf = 0;

  void children(const Tree& tree) {
    bool keyed = tree.keys.size() == tree.children.size();
    for (size_t i = 0; i < tree.children.size(); i++) {
      if (i) out += ", ";
      if (keyed) out += quote_text(tree.keys[i]) + ": ";
      print(tree.children[i]);
    }
  }

  void print(const Tree& tree) {
    switch (tree.kind) {
      case TreeKind::Leaf:
        leaf(out, next_leaf++);
        break;
      case TreeKind::Constant:
        out += constant_text(tree.text);
        break;
      case TreeKind::List:
        out += '[';
        children(tree);
        out += ']';
        break;
      case TreeKind::Tuple:
        out += '(';
        children(tree);
        out += tree.children.size() == 1 ? ",)" : ")";
        break;
      case TreeKind::Dict:
        out += '{';
        children(tree);
        out += '}';
        break;
      case TreeKind::Custom:
        out += is_dotted_name(tree.text) && tree.text != "leaf" ? tree.text : quote_text(tree.text, '`');
        out += '(';
        children(tree);
        out += ')';
        break;
    }
  }
};

}  // namespace

void append_tree(std::string& out, const Tree& tree, const LeafText& leaf) { TreePrinter{out, leaf}.print(tree); }

std::string Tree::str() const {
  std::string out;
  append_tree(out, *this, [](std::string& text, size_t) { text += '_'; });
  return out;
}

}  // namespace firesteel
