// Reads sizes, types, constants and arguments of graph text.
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "graph/parser.h"
#include "graph/text.h"

namespace firesteel {
namespace {

constexpr int kDeepest = 100;

bool all_items(const std::vector<Arg>& items, bool (*holds)(const c10::IValue&)) {
  for (const Arg& item : items) {
    if (item.kind != Arg::Kind::Const || !holds(item.constant)) return false;
  }
  return true;
}

template <class T, class F>
Arg constant_list(const std::vector<Arg>& items, F&& convert) {
  c10::List<T> list;
  for (const Arg& item : items) list.push_back(convert(item.constant));
  return Arg::of_const(std::move(list));
}

}  // namespace

Parser::Depth::Depth(Parser& parser) : parser(parser) {
  if (++parser.depth_ > kDeepest) {
    parser.depth_--;
    parser.fail(parser.peek(), fmt::format("brackets are nested more than {} deep", kDeepest));
  }
}

const Token& Parser::peek(size_t ahead) const { return tokens_.list[std::min(at_ + ahead, tokens_.list.size() - 1)]; }

Token Parser::take() {
  Token token = peek();
  if (token.kind != Token::Kind::End) at_++;
  return token;
}

bool Parser::take_mark(std::string_view mark) {
  if (!peek().is_mark(mark)) return false;
  at_++;
  return true;
}

bool Parser::take_word(std::string_view word) {
  if (!peek().is_word(word)) return false;
  at_++;
  return true;
}

void Parser::expect_mark(std::string_view mark) {
  if (!take_mark(mark)) fail_expected(fmt::format("`{}`", mark));
}

void Parser::expect_word(std::string_view word) {
  if (!take_word(word)) fail_expected(fmt::format("`{}`", word));
}

size_t Parser::expect_index(const char* what) {
  const Token& token = peek();
  size_t index = 0;
  auto [end, error] = std::from_chars(token.raw.data(), token.raw.data() + token.raw.size(), index);
  bool whole = token.kind == Token::Kind::Number && end == token.raw.data() + token.raw.size();
  if (!whole || error != std::errc() || index > std::numeric_limits<int32_t>::max()) fail_expected(what);
  at_++;
  return index;
}

void Parser::fail(const Token& token, const std::string& message) const {
  raise_format_error(tokens_.source, token.line, token.column, message);
}

void Parser::fail_expected(const std::string& what) const {
  const Token& found = peek();
  std::string shown = found.kind == Token::Kind::End ? "the end of the text" : fmt::format("`{}`", found.raw);
  fail(found, fmt::format("expected {}, found {}", what, shown));
}

Dim Parser::dim() {
  Depth depth(*this);
  Dim sum = dim_term(false);
  while (true) {
    if (take_mark("+")) {
      sum = sum + dim_term(false);
    } else if (take_mark("-")) {
      sum = sum + dim_term(true);
    } else {
      return sum;
    }
  }
}

Dim Parser::dim_term(bool negative) {
  // The smallest number has no positive twin, so its sign cannot be applied afterwards.
  if (negative && peek().kind == Token::Kind::Number && peek().raw == "9223372036854775808") {
    at_++;
    return std::numeric_limits<int64_t>::min();
  }
  Dim product = dim_factor();
  while (true) {
    if (take_mark("*")) {
      product = product * dim_factor();
    } else if (take_mark("//")) {
      product = Dim::make(DimOp::FloorDiv, product, dim_factor());
    } else if (take_mark("%")) {
      product = Dim::make(DimOp::Mod, product, dim_factor());
    } else {
      return negative ? Dim(-1) * product : product;
    }
  }
}

Dim Parser::dim_factor() {
  bool negative = take_mark("-");
  if (peek().kind == Token::Kind::Number) {
    Token token = peek();
    c10::IValue value = number(negative);
    if (!value.isInt()) fail(token, "a size must be a whole number of 64 bits");
    return value.toInt();
  }
  if (negative) fail_expected("a number");
  for (auto [name, op] : {std::pair("min", DimOp::Min), std::pair("max", DimOp::Max)}) {
    if (!peek().is_word(name) || !peek(1).is_mark("(")) continue;
    at_ += 2;
    Dim lhs = dim();
    expect_mark(",");
    Dim rhs = dim();
    expect_mark(")");
    return Dim::make(op, lhs, rhs);
  }
  if (peek().kind == Token::Kind::Word) return Dim::symbol(std::string(take().raw));
  if (take_mark("(")) {
    Dim inner = dim();
    expect_mark(")");
    return inner;
  }
  fail_expected("a size");
}

c10::Device Parser::device() {
  Token token = take();
  std::string text(token.raw);
  if (peek().is_mark(":") && peek(1).kind == Token::Kind::Number) {
    text += fmt::format(":{}", peek(1).raw);
    at_ += 2;
  }
  try {
    return c10::Device(text);
  } catch (const std::exception&) {
    fail(token, fmt::format("`{}` is no device", text));
  }
}

Type Parser::type() {
  static const std::pair<const char*, ValueKind> kKinds[] = {
#define X(name, text) {text, ValueKind::name},
      FIRESTEEL_VALUE_KINDS(X)
#undef X
  };
  Token word = peek();
  auto dtype = word.kind == Token::Kind::Word ? dtype_from_text(word.raw) : std::nullopt;
  if (!dtype || !peek(1).is_mark("[")) {
    for (auto [text, kind] : kKinds) {
      if (kind != ValueKind::Tensor && take_word(text)) return Type::scalar(kind);
    }
    fail_expected("a type such as `f32[8, 16]` or `int`");
  }
  at_ += 2;
  std::vector<Dim> sizes, strides;
  bool has_strides = peek().is_mark(";");
  while (!has_strides && !take_mark("]")) {
    sizes.push_back(dim());
    has_strides = peek().is_mark(";");
    if (has_strides || take_mark("]")) break;
    if (!take_mark(",")) fail_expected("`,`, `;` or `]`");
  }
  if (has_strides) {
    Token place = take();
    separated("]", [&] { strides.push_back(dim()); });
    if (strides.size() != sizes.size())
      fail(place, fmt::format("{} sizes but {} strides", sizes.size(), strides.size()));
  } else {
    strides = contiguous_strides(sizes);
  }
  Type result = Type::tensor(*dtype, c10::Device(c10::kCPU), std::move(sizes), std::move(strides));
  static constexpr std::string_view kNoDevice[] = {"grad", "argument", "captured", "tangent", "saved"};
  bool other = std::find(std::begin(kNoDevice), std::end(kNoDevice), peek().raw) != std::end(kNoDevice);
  if (peek().kind == Token::Kind::Word && !other) result.device = device();
  result.requires_grad = take_word("grad");
  return result;
}

c10::IValue Parser::number(bool negative) {
  Token token = peek();
  if (token.kind != Token::Kind::Number) fail_expected("a number");
  at_++;
  const char* first = token.raw.data();
  const char* last = first + token.raw.size();
  if (token.raw.find_first_of(".eE") != std::string_view::npos) {
    double value = 0;
    auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc() || end != last) fail(token, "this number does not fit a double");
    return negative ? -value : value;
  }
  uint64_t magnitude = 0;
  auto [end, error] = std::from_chars(first, last, magnitude);
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (error != std::errc() || end != last || (negative && magnitude > kMax + 1))
    fail(token, "this number does not fit 64 bits");
  if (negative) return static_cast<int64_t>(-magnitude);
  return magnitude > kMax ? c10::IValue(magnitude) : c10::IValue(static_cast<int64_t>(magnitude));
}

// A constant that starts with a word, or nothing where the word means none here.
std::optional<c10::IValue> Parser::word_constant(const c10::Type* slot) {
  auto float_part = [&] {
    bool negative = take_mark("-");
    double sign = negative ? -1 : 1;
    if (take_word("inf")) return sign * std::numeric_limits<double>::infinity();
    if (take_word("nan")) return sign * std::numeric_limits<double>::quiet_NaN();
    c10::IValue part = number(negative);
    return part.isDouble() ? part.toDouble() : static_cast<double>(part.isInt() ? part.toInt() : part.toUInt());
  };
  auto string_part = [&] {
    if (peek().kind != Token::Kind::String) fail_expected("a string");
    return take().text;
  };
  bool called = peek(1).is_mark("(");
  if (called && take_word("complex")) {
    expect_mark("(");
    double real = float_part();
    expect_mark(",");
    double imaginary = float_part();
    expect_mark(")");
    return c10::IValue(c10::complex<double>(real, imaginary));
  }
  if (called && take_word("opaque")) {
    expect_mark("(");
    c10::IValue value = c10::IValue::make_capsule(c10::make_intrusive<OpaqueConstant>(string_part()));
    expect_mark(")");
    return value;
  }
  if (called && take_word("device")) {
    expect_mark("(");
    Token place = peek();
    std::string text = string_part();
    expect_mark(")");
    try {
      return c10::IValue(c10::Device(text));
    } catch (const std::exception&) {
      fail(place, fmt::format("`{}` is no device", text));
    }
  }
  if (take_word("True")) return c10::IValue(true);
  if (take_word("False")) return c10::IValue(false);
  if (peek().is_word("inf") || peek().is_word("nan")) return c10::IValue(float_part());
  // A generator's state is not text: an undefined one is what operators take for the default generator.
  if (take_word("generator")) return c10::IValue(at::Generator());
  if (auto value = number_of_word(peek().raw, slot)) {
    at_++;
    return c10::IValue(*value);
  }
  const c10::Type* kind = slot_kind(slot);
  if (kind && kind->kind() == c10::TypeKind::DeviceObjType) return c10::IValue(device());
  return std::nullopt;
}

Value* Parser::value_use() {
  if (peek().kind != Token::Kind::Value) fail_expected("a value such as `%x`");
  Token token = take();
  auto found = values_.find(token.text);
  if (found == values_.end()) fail(token, fmt::format("{} is not defined before this line", token.raw));
  return found->second;
}

namespace {

// Sizes may be expressions; other ints are numbers.
bool is_size_slot(const c10::Type* slot) {
  const c10::Type* kind = slot_kind(slot);
  return kind && kind->kind() == c10::TypeKind::SymIntType;
}

}  // namespace

Arg Parser::arg(const c10::Type* slot) {
  Depth depth(*this);
  Arg result;
  const Token& token = peek();
  const bool is_list_or_none = token.raw == "[" || token.is_word("None");
  if (is_size_slot(slot) && token.kind != Token::Kind::Value && !is_list_or_none) return Arg::of_dim(dim());
  switch (token.kind) {
    case Token::Kind::Value:
      return value_use();
    case Token::Kind::String:
      return Arg::of_const(take().text);
    case Token::Kind::Number: {
      c10::IValue value = number(false);
      const c10::Type* kind = slot_kind(slot);
      bool wants_float = kind && kind->kind() == c10::TypeKind::FloatType;
      return Arg::of_const(wants_float && value.isInt() ? c10::IValue(static_cast<double>(value.toInt())) : value);
    }
    case Token::Kind::Word:
      if (take_word("None")) return result;
      if (auto constant = word_constant(slot)) return Arg::of_const(std::move(*constant));
      break;
    case Token::Kind::Mark:
      if (token.raw == "[") return list_arg(slot);
      if (token.raw == "-" && peek(1).is_word("inf")) {
        at_ += 2;
        return Arg::of_const(-std::numeric_limits<double>::infinity());
      }
      if (take_mark("-")) return Arg::of_const(number(true));
      if (take_mark("(")) {
        result.kind = Arg::Kind::Tuple;
        separated(")", [&] { result.items.push_back(arg(nullptr)); });
        return result;
      }
      if (take_mark("{")) {
        result.kind = Arg::Kind::Dict;
        separated("}", [&] {
          if (peek().kind != Token::Kind::String) fail_expected("a key in quotes");
          result.keys.push_back(take().text);
          expect_mark(":");
          result.items.push_back(arg(nullptr));
        });
        return result;
      }
      break;
    default:
      break;
  }
  fail_expected("a value such as `%x` or a constant");
}

// A list of constants is one constant where the schema says so; anything else stays a list of arguments.
Arg Parser::list_arg(const c10::Type* slot) {
  const c10::Type* element = element_slot(slot);
  std::vector<Arg> items;
  expect_mark("[");
  separated("]", [&] { items.push_back(arg(element)); });
  if (!element) return Arg::list(std::move(items));
  auto is_int = [](const c10::IValue& value) { return value.isInt(); };
  auto is_number = [](const c10::IValue& value) { return value.isScalar(); };
  switch (element->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (all_items(items, is_int)) return constant_list<int64_t>(items, [](auto& value) { return value.toInt(); });
      break;
    case c10::TypeKind::FloatType:
      if (all_items(items, [](auto& value) { return value.isDouble(); }))
        return constant_list<double>(items, [](auto& value) { return value.toDouble(); });
      break;
    case c10::TypeKind::BoolType:
      if (all_items(items, [](auto& value) { return value.isBool(); }))
        return constant_list<bool>(items, [](auto& value) { return value.toBool(); });
      break;
    case c10::TypeKind::StringType:
      if (all_items(items, [](auto& value) { return value.isString(); }))
        return constant_list<std::string>(items, [](auto& value) { return value.toStringRef(); });
      break;
    case c10::TypeKind::NumberType:
      if (all_items(items, is_number)) {
        c10::impl::GenericList list(c10::NumberType::get());
        for (const Arg& item : items) list.push_back(item.constant);
        return Arg::of_const(list);
      }
      break;
    default:
      break;
  }
  return Arg::list(std::move(items));
}

}  // namespace firesteel
