// Cuts graph text into tokens.
#include "graph/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace firesteel {
namespace {

constexpr size_t kShownWidth = 120;  // of a long line, so much is shown around the place

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { tokens_.source = text; }

  Tokens run() {
    while (skip_space()) next_token();
    push(Token::Kind::End, at_);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  // Passes over blanks and comments; false at the end of the text.
  bool skip_space() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '\n') {
        line_++;
        line_start_ = ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        at_++;
      } else if (c == '#') {
        size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view comment = text_.substr(at_ + 1, end - at_ - 1);
        if (comment.starts_with(' ')) comment.remove_prefix(1);
        tokens_.comments[line_] = comment;
        at_ = end;
      } else {
        return true;
      }
    }
    return false;
  }

  void push(Token::Kind kind, size_t start, std::string text = {}) {
    tokens_.list.push_back({kind, text_.substr(start, at_ - start), std::move(text), line_, start - line_start_ + 1});
  }

  void next_token() {
    char c = peek();
    size_t start = at_;
    if (is_word_start(c)) {
      while (is_word_char(peek())) at_++;
      push(Token::Kind::Word, start);
    } else if (is_digit(c)) {
      number();
      push(Token::Kind::Number, start);
    } else if (c == '%' && is_word_char(peek(1))) {
      at_++;
      while (is_word_char(peek())) at_++;
      push(Token::Kind::Value, start, std::string(text_.substr(start + 1, at_ - start - 1)));
    } else if (c == '"' || c == '\'' || c == '`') {
      std::string text = quoted_text(c);
      push(c == '`' ? Token::Kind::Backticks : Token::Kind::String, start, std::move(text));
    } else {
      mark(start);
    }
  }

  void number() {
    while (is_digit(peek())) at_++;
    if (peek() == '.') {
      at_++;
      while (is_digit(peek())) at_++;
    }
    if (peek() != 'e' && peek() != 'E') return;
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!is_digit(peek(1 + sign))) return;
    at_ += 1 + sign;
    while (is_digit(peek())) at_++;
  }

  std::string quoted_text(char quote) {
    size_t start = at_++;
    std::string text;
    while (at_ < text_.size() && text_[at_] != '\n') {
      char c = text_[at_++];
      if (c == quote) return text;
      text += c == '\\' ? escaped() : c;
    }
    raise_format_error(text_, line_, start - line_start_ + 1, fmt::format("this {} is not closed on its line", quote));
  }

  char escaped() {
    size_t place = at_ - line_start_ + 1;
    char c = peek();
    at_++;
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '\\':
      case '"':
      case '\'':
      case '`':
        return c;
      case 'x': {
        int value = hex(peek()) * 16 + hex(peek(1));
        if (hex(peek()) < 0 || hex(peek(1)) < 0) break;
        at_ += 2;
        return static_cast<char>(value);
      }
      default:
        break;
    }
    raise_format_error(text_, line_, place,
                       "unknown escape: expected \\n, \\t, \\r, \\\\, a quote or \\x and two hex digits");
  }

  static int hex(char c) {
    if (is_digit(c)) return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -100;
  }

  void mark(size_t start) {
    static constexpr std::array<std::string_view, 2> kPairs = {"<-", "//"};
    static constexpr std::string_view kSingles = "()[]{},:;=*+-%";
    for (std::string_view pair : kPairs) {
      if (text_.substr(start).starts_with(pair)) {
        at_ += pair.size();
        return push(Token::Kind::Mark, start);
      }
    }
    if (kSingles.find(peek()) == std::string_view::npos)
      raise_format_error(text_, line_, start - line_start_ + 1, "this character has no meaning here");
    at_++;
    push(Token::Kind::Mark, start);
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
  Tokens tokens_;
};

}  // namespace

Tokens tokenize(std::string_view text) { return Lexer(text).run(); }

void raise_format_error(std::string_view source, size_t line, size_t column, const std::string& message) {
  size_t start = 0;
  for (size_t i = 1; i < line; i++) start = source.find('\n', start) + 1;
  std::string shown(source.substr(start, source.find('\n', start) - start));
  size_t caret = std::min(column - 1, shown.size());
  if (shown.size() > kShownWidth) {
    size_t left = caret > kShownWidth / 2 ? caret - kShownWidth / 2 : 0;
    shown = shown.substr(left, kShownWidth);
    caret -= left;
  }
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\t' ? ' ' : '?';
  }
  FS_RAISE(GraphFormatError, "line {}, column {}: {}\n  {}\n  {}^", line, column, message, shown,
           std::string(caret, ' '));
}

}  // namespace firesteel
