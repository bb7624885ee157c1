// Names, quoting and constants of graph text.
#include "graph/text.h"

#include <array>
#include <bit>
#include <cctype>
#include <cmath>

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <fmt/format.h>

#include "graph/type.h"

namespace firesteel {
namespace {

// In the order of c10::Layout and c10::MemoryFormat, spelled as Python does.
constexpr std::array<std::string_view, 8> kLayouts = {"strided",    "sparse_coo", "sparse_csr", "mkldnn",
                                                      "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"};
constexpr std::array<std::string_view, 4> kMemoryFormats = {"contiguous_format", "preserve_format", "channels_last",
                                                            "channels_last_3d"};
static_assert(kLayouts.size() == static_cast<size_t>(c10::Layout::NumOptions));
static_assert(kMemoryFormats.size() == static_cast<size_t>(c10::MemoryFormat::NumOptions));

std::optional<std::string_view> word_of_number(int64_t number, const c10::Type* slot) {
  const c10::Type* kind = slot_kind(slot);
  if (!kind || number < 0) return std::nullopt;
  auto index = static_cast<size_t>(number);
  switch (kind->kind()) {
    case c10::TypeKind::ScalarTypeType:
      if (index < static_cast<size_t>(c10::ScalarType::Undefined))
        return dtype_text(static_cast<c10::ScalarType>(number));
      break;
    case c10::TypeKind::LayoutType:
      if (index < kLayouts.size()) return kLayouts[index];
      break;
    case c10::TypeKind::MemoryFormatType:
      if (index < kMemoryFormats.size()) return kMemoryFormats[index];
      break;
    default:
      break;
  }
  return std::nullopt;
}

template <size_t N>
std::optional<int64_t> index_of(const std::array<std::string_view, N>& words, std::string_view word) {
  for (size_t i = 0; i < N; i++) {
    if (words[i] == word) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

bool has_string_keys(const c10::Dict<c10::IValue, c10::IValue>& dict) {
  for (const auto& entry : dict) {
    if (!entry.key().isString()) return false;
  }
  return true;
}

void append_opaque(std::string& out, const c10::IValue& value) {
  if (value.isCapsule()) {
    auto* opaque = dynamic_cast<OpaqueConstant*>(value.toCapsule().get());
    if (opaque) {
      out += fmt::format("opaque({})", quote_text(opaque->text));
      return;
    }
  }
  out += fmt::format("opaque({})", quote_text(value.tagKind()));
}

void append_items(std::string& out, c10::ArrayRef<c10::IValue> items, const c10::Type* slot) {
  for (size_t i = 0; i < items.size(); i++) {
    if (i) out += ", ";
    append_constant(out, items[i], slot);
  }
}

}  // namespace

bool is_identifier(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (unsigned char c : text) {
    if (!std::isalnum(c) && c != '_') return false;
  }
  return true;
}

bool is_dotted_name(std::string_view text) {
  while (true) {
    size_t dot = text.find('.');
    if (!is_identifier(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

std::string quote_text(std::string_view text, char quote) {
  std::string out(1, quote);
  for (unsigned char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (c == static_cast<unsigned char>(quote)) {
          out += '\\';
          out += quote;
        } else if (c < 0x20 || c == 0x7f) {
          out += fmt::format("\\x{:02x}", c);
        } else {
          out += static_cast<char>(c);
        }
    }
  }
  out += quote;
  return out;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  std::string text = fmt::format("{}", number);
  if (std::isfinite(number) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

const c10::Type* slot_kind(const c10::Type* slot) {
  while (slot && slot->kind() == c10::TypeKind::OptionalType) slot = slot->containedTypes()[0].get();
  return slot;
}

const c10::Type* element_slot(const c10::Type* slot) {
  slot = slot_kind(slot);
  return slot && slot->kind() == c10::TypeKind::ListType ? slot->containedTypes()[0].get() : nullptr;
}

void append_constant(std::string& out, const c10::IValue& value, const c10::Type* slot) {
  if (value.isNone()) {
    out += "None";
  } else if (value.isBool()) {
    out += value.toBool() ? "True" : "False";
  } else if (value.isInt()) {
    auto word = word_of_number(value.toInt(), slot);
    out += word ? std::string(*word) : std::to_string(value.toInt());
  } else if (value.isUnsigned()) {
    out += std::to_string(value.toUInt());
  } else if (value.isDouble()) {
    out += float_text(value.toDouble());
  } else if (value.isComplexDouble()) {
    c10::complex<double> number = value.toComplexDouble();
    out += fmt::format("complex({}, {})", float_text(number.real()), float_text(number.imag()));
  } else if (value.isString()) {
    out += quote_text(value.toStringRef());
  } else if (value.isDevice()) {
    const c10::Type* kind = slot_kind(slot);
    bool known = kind && kind->kind() == c10::TypeKind::DeviceObjType;
    out += known ? value.toDevice().str() : fmt::format("device({})", quote_text(value.toDevice().str()));
  } else if (value.isGenerator()) {
    out += "generator";
  } else if (value.isList()) {
    out += '[';
    append_items(out, value.toListRef(), element_slot(slot));
    out += ']';
  } else if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    out += '(';
    append_items(out, items, nullptr);
    out += items.size() == 1 ? ",)" : ")";
  } else if (value.isGenericDict() && has_string_keys(value.toGenericDict())) {
    out += '{';
    bool first = true;
    for (const auto& entry : value.toGenericDict()) {
      if (!first) out += ", ";
      first = false;
      out += quote_text(entry.key().toStringRef()) + ": ";
      append_constant(out, entry.value(), nullptr);
    }
    out += '}';
  } else {
    append_opaque(out, value);
  }
}

std::optional<int64_t> number_of_word(std::string_view word, const c10::Type* slot) {
  const c10::Type* kind = slot_kind(slot);
  if (!kind) return std::nullopt;
  switch (kind->kind()) {
    case c10::TypeKind::ScalarTypeType: {
      auto dtype = dtype_from_text(word);
      return dtype ? std::optional(static_cast<int64_t>(*dtype)) : std::nullopt;
    }
    case c10::TypeKind::LayoutType:
      return index_of(kLayouts, word);
    case c10::TypeKind::MemoryFormatType:
      return index_of(kMemoryFormats, word);
    default:
      return std::nullopt;
  }
}

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  auto same_bits = [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); };
  auto same_items = [](c10::ArrayRef<c10::IValue> x, c10::ArrayRef<c10::IValue> y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); i++) {
      if (!same_constant(x[i], y[i])) return false;
    }
    return true;
  };
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone();
  if (a.isBool() || b.isBool()) return a.isBool() && b.isBool() && a.toBool() == b.toBool();
  if (a.isInt() || b.isInt()) return a.isInt() && b.isInt() && a.toInt() == b.toInt();
  if (a.isUnsigned() || b.isUnsigned()) return a.isUnsigned() && b.isUnsigned() && a.toUInt() == b.toUInt();
  if (a.isDouble() || b.isDouble()) return a.isDouble() && b.isDouble() && same_bits(a.toDouble(), b.toDouble());
  if (a.isComplexDouble() && b.isComplexDouble()) {
    auto x = a.toComplexDouble(), y = b.toComplexDouble();
    return same_bits(x.real(), y.real()) && same_bits(x.imag(), y.imag());
  }
  if (a.isString() && b.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isDevice() && b.isDevice()) return a.toDevice() == b.toDevice();
  if (a.isList() && b.isList()) return same_items(a.toListRef(), b.toListRef());
  if (a.isTuple() && b.isTuple()) return same_items(a.toTupleRef().elements(), b.toTupleRef().elements());
  return a.isPtrType() && b.isPtrType() && a.is(b);  // opaque ones: the same object
}

}  // namespace firesteel
