// Graph text cut into tokens, each with its place; and the error that shows that place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace firesteel {

struct Token {
  enum class Kind : uint8_t { End, Word, Value, Number, String, Backticks, Mark };
  Kind kind = Kind::End;
  std::string_view raw;  // as written, quotes and '%' included
  std::string text;      // Value: without '%'; String, Backticks: what the quotes hold
  size_t line = 1;       // both from 1
  size_t column = 1;

  bool is_mark(std::string_view mark) const { return kind == Kind::Mark && raw == mark; }
  bool is_word(std::string_view word) const { return kind == Kind::Word && raw == word; }
};

struct Tokens {
  std::string_view source;
  std::vector<Token> list;                                // ends with one End
  std::unordered_map<size_t, std::string_view> comments;  // by line, without "# "
};

Tokens tokenize(std::string_view text);

// Throws GraphFormatError: where, the line with a caret under the place, and the message.
[[noreturn]] void raise_format_error(std::string_view source, size_t line, size_t column, const std::string& message);

}  // namespace firesteel
