// What is known of a value: a tensor's dtype, device and (possibly symbolic) layout, or a plain kind.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "graph/dim.h"

namespace firesteel {

// Value kinds with their spelling in graph text. Tensors print as `f32[8, 16]` instead.
#define FIRESTEEL_VALUE_KINDS(X) \
  X(Tensor, "tensor")            \
  X(None, "none")                \
  X(Int, "int")                  \
  X(Float, "float")              \
  X(Bool, "bool")                \
  X(Object, "object")

enum class ValueKind : uint8_t {
#define X(name, text) name,
  FIRESTEEL_VALUE_KINDS(X)
#undef X
};

struct FIRESTEEL_API Type {
  ValueKind kind = ValueKind::None;
  // The rest is for tensors only.
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::Device(c10::kCPU);
  std::vector<Dim> sizes;
  std::vector<Dim> strides;
  bool requires_grad = false;

  static Type none() { return {}; }
  static Type scalar(ValueKind kind);
  static Type tensor(c10::ScalarType dtype, c10::Device device, std::vector<Dim> sizes, std::vector<Dim> strides);

  bool is_tensor() const { return kind == ValueKind::Tensor; }
  bool is_contiguous() const;
  // Bytes that a dense tensor of these sizes takes; nullopt where a size is symbolic.
  std::optional<int64_t> nbytes() const;
  // `f32[8, 16]`, `bf16[2, 3; 1, 2] cuda:0 grad`: strides only where not contiguous, the device only where not the CPU.
  std::string str() const;
  FIRESTEEL_API friend bool operator==(const Type& a, const Type& b);
};

FIRESTEEL_API const char* dtype_text(c10::ScalarType dtype);  // "f32", "bf16", "i64", "bool", "c64", …
FIRESTEEL_API std::optional<c10::ScalarType> dtype_from_text(std::string_view text);

}  // namespace firesteel
