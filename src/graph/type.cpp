// Types: spelling of dtypes, contiguity, text.
#include "graph/type.h"

#include <array>

#include <fmt/format.h>

namespace firesteel {
namespace {

struct DtypeText {
  c10::ScalarType dtype;
  const char* text;
};

// What has no short name here (quantized and sub-byte dtypes) goes by torch's own.
constexpr DtypeText kShortNames[] = {
    {c10::ScalarType::Byte, "u8"},
    {c10::ScalarType::Char, "i8"},
    {c10::ScalarType::Short, "i16"},
    {c10::ScalarType::Int, "i32"},
    {c10::ScalarType::Long, "i64"},
    {c10::ScalarType::Half, "f16"},
    {c10::ScalarType::Float, "f32"},
    {c10::ScalarType::Double, "f64"},
    {c10::ScalarType::ComplexHalf, "c32"},
    {c10::ScalarType::ComplexFloat, "c64"},
    {c10::ScalarType::ComplexDouble, "c128"},
    {c10::ScalarType::Bool, "bool"},
    {c10::ScalarType::BFloat16, "bf16"},
    {c10::ScalarType::UInt16, "u16"},
    {c10::ScalarType::UInt32, "u32"},
    {c10::ScalarType::UInt64, "u64"},
    {c10::ScalarType::Float8_e5m2, "f8e5m2"},
    {c10::ScalarType::Float8_e4m3fn, "f8e4m3fn"},
};

constexpr size_t kDtypes = static_cast<size_t>(c10::ScalarType::NumOptions);

const std::array<const char*, kDtypes>& dtype_names() {
  static const auto names = [] {
    std::array<const char*, kDtypes> table{};
    for (size_t i = 0; i < kDtypes; i++) table[i] = c10::toString(static_cast<c10::ScalarType>(i));
    for (auto [dtype, text] : kShortNames) table[static_cast<size_t>(dtype)] = text;
    return table;
  }();
  return names;
}

const char* kind_text(ValueKind kind) {
  switch (kind) {
#define X(name, text)   \
  case ValueKind::name: \
    return text;
    FIRESTEEL_VALUE_KINDS(X)
#undef X
  }
  return "object";
}

void append_dims(std::string& out, const std::vector<Dim>& dims) {
  for (size_t i = 0; i < dims.size(); i++) {
    if (i) out += ", ";
    out += dims[i].str();
  }
}

}  // namespace

const char* dtype_text(c10::ScalarType dtype) {
  auto index = static_cast<size_t>(dtype);
  return index < kDtypes ? dtype_names()[index] : "undefined";
}

std::optional<c10::ScalarType> dtype_from_text(std::string_view text) {
  const auto& names = dtype_names();
  for (size_t i = 0; i < kDtypes; i++) {
    if (names[i] == text) return static_cast<c10::ScalarType>(i);
  }
  return std::nullopt;
}

Type Type::scalar(ValueKind kind) {
  Type type;
  type.kind = kind;
  return type;
}

Type Type::tensor(c10::ScalarType dtype, c10::Device device, std::vector<Dim> sizes, std::vector<Dim> strides) {
  Type type;
  type.kind = ValueKind::Tensor;
  type.dtype = dtype;
  type.device = device;
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  return type;
}

bool Type::is_contiguous() const {
  if (!is_tensor() || strides.size() != sizes.size()) return false;
  for (const Dim& size : sizes) {
    if (size == Dim(0)) return true;
  }
  Dim expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == Dim(1)) continue;  // the stride of a single element means nothing
    if (strides[i] != expected) return false;
    expected = expected * sizes[i];
  }
  return true;
}

std::optional<int64_t> Type::nbytes() const {
  if (!is_tensor()) return 0;
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const Dim& size : sizes) {
    if (!size.is_number() || __builtin_mul_overflow(bytes, size.number(), &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string Type::str() const {
  if (!is_tensor()) return kind_text(kind);
  std::string out = dtype_text(dtype);
  out += '[';
  append_dims(out, sizes);
  // Exactly the row-major strides are left out, so that the text gives back the type as it was.
  if (strides != contiguous_strides(sizes)) {
    out += "; ";
    append_dims(out, strides);
  }
  out += ']';
  if (!device.is_cpu() || device.has_index()) out += " " + device.str();
  if (requires_grad) out += " grad";
  return out;
}

bool operator==(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (!a.is_tensor()) return true;
  return a.dtype == b.dtype && a.device == b.device && a.requires_grad == b.requires_grad && a.sizes == b.sizes &&
         a.strides == b.strides;
}

}  // namespace firesteel
