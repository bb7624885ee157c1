// Reads and fills small tensors in memory, past the dispatcher: a tracing mode must not see it.
#include "graph/small_tensor.h"

#include <cmath>
#include <cstdlib>

#include <ATen/EmptyTensor.h>
#include <c10/core/DispatchKeySet.h>
#include <fmt/format.h>

#include "base/error.h"
#include "graph/text.h"

namespace firesteel {
namespace {

// Strides may spread a few elements over much memory; such tensors are not worth a line of text.
constexpr int64_t kFurthestElement = 4096;

std::optional<std::vector<int64_t>> numbers(const std::vector<Dim>& dims) {
  std::vector<int64_t> result;
  for (const Dim& dim : dims) {
    if (!dim.is_number() || dim.number() < 0) return std::nullopt;
    result.push_back(dim.number());
  }
  return result;
}

// Calls visit(offset in elements) for every element, row by row.
template <class F>
void each_offset(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, size_t dim, F& visit) {
  if (dim == sizes.size()) return visit(offset);
  for (int64_t i = 0; i < sizes[dim]; i++) each_offset(sizes, strides, offset + i * strides[dim], dim + 1, visit);
}

bool is_plain(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Byte:
    case c10::ScalarType::Char:
    case c10::ScalarType::Short:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
    case c10::ScalarType::Half:
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::ComplexDouble:
    case c10::ScalarType::Bool:
    case c10::ScalarType::BFloat16:
      return true;
    default:
      return false;
  }
}

// Calls f(T{}) with the C++ type of a plain dtype.
template <class F>
void with_element_type(c10::ScalarType dtype, F&& f) {
  switch (dtype) {
    case c10::ScalarType::Byte:
      return f(uint8_t{});
    case c10::ScalarType::Char:
      return f(int8_t{});
    case c10::ScalarType::Short:
      return f(int16_t{});
    case c10::ScalarType::Int:
      return f(int32_t{});
    case c10::ScalarType::Long:
      return f(int64_t{});
    case c10::ScalarType::Half:
      return f(c10::Half{});
    case c10::ScalarType::Float:
      return f(float{});
    case c10::ScalarType::Double:
      return f(double{});
    case c10::ScalarType::ComplexFloat:
      return f(c10::complex<float>{});
    case c10::ScalarType::ComplexDouble:
      return f(c10::complex<double>{});
    case c10::ScalarType::Bool:
      return f(bool{});
    case c10::ScalarType::BFloat16:
      return f(c10::BFloat16{});
    default:
      FS_CHECK(false, "dtype {} is not plain", c10::toString(dtype));
  }
}

// A float32's shortest text is shorter than that of the double it widens to.
std::string short_float_text(float number) {
  std::string text = fmt::format("{}", number);
  if (!std::isfinite(number)) return float_text(number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return static_cast<float>(std::strtod(text.c_str(), nullptr)) == number ? text : float_text(number);
}

template <class T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return float_text(value);
  } else if constexpr (c10::is_complex<T>::value) {
    return fmt::format("complex({}, {})", element_text(value.real()), element_text(value.imag()));
  } else {
    return short_float_text(static_cast<float>(value));
  }
}

bool is_plain_cpu_memory(const at::Tensor& tensor) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet wrapped({DispatchKey::Fake, DispatchKey::Functionalize, DispatchKey::Python,
                                         DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                                         DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor});
  return tensor.key_set().has(DispatchKey::CPU) && !tensor.key_set().has_any(wrapped) &&
         tensor.layout() == c10::kStrided && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         tensor.has_storage();
}

}  // namespace

std::optional<int64_t> small_tensor_count(const Type& type) {
  if (!type.is_tensor() || !type.device.is_cpu() || !is_plain(type.dtype)) return std::nullopt;
  auto sizes = numbers(type.sizes);
  auto strides = numbers(type.strides);
  if (!sizes || !strides || sizes->size() != strides->size()) return std::nullopt;
  int64_t count = 1;
  for (int64_t size : *sizes) {
    if (size == 0) return 0;
  }
  int64_t furthest = 0;
  for (size_t i = 0; i < sizes->size(); i++) {
    int64_t size = (*sizes)[i], stride = (*strides)[i];
    if (size > kSmallTensorElements || (size > 1 && stride > kFurthestElement)) return std::nullopt;
    count *= size;
    furthest += (size - 1) * stride;
    if (count > kSmallTensorElements || furthest > kFurthestElement) return std::nullopt;
  }
  return count;
}

std::optional<std::string> small_tensor_text(const Input& input) {
  const at::Tensor& tensor = input.captured;
  const Type& type = input.value->type;
  if (input.role != InputRole::Captured || !tensor.defined() || !small_tensor_count(type)) return std::nullopt;
  if (!is_plain_cpu_memory(tensor) || tensor.scalar_type() != type.dtype) return std::nullopt;
  if (numbers(type.sizes) != tensor.sizes().vec() || numbers(type.strides) != tensor.strides().vec())
    return std::nullopt;
  if (tensor.numel() > 0 && !tensor.unsafeGetTensorImpl()->storage().data()) return std::nullopt;
  std::string out = "[";
  with_element_type(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* data = static_cast<const T*>(tensor.unsafeGetTensorImpl()->data());
    auto append = [&](int64_t offset) {
      if (out.size() > 1) out += ", ";
      out += element_text<T>(data[offset]);
    };
    each_offset(tensor.sizes(), tensor.strides(), 0, 0, append);
  });
  return out + "]";
}

at::Tensor make_small_tensor(const Type& type, const std::vector<c10::Scalar>& elements) {
  FS_CHECK(small_tensor_count(type) == static_cast<int64_t>(elements.size()), "wrong number of elements");
  at::Tensor tensor(at::detail::empty_strided_cpu(*numbers(type.sizes), *numbers(type.strides), type.dtype));
  with_element_type(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* data = static_cast<T*>(tensor.unsafeGetTensorImpl()->mutable_data());
    size_t next = 0;
    auto fill = [&](int64_t offset) { data[offset] = elements[next++].to<T>(); };
    each_offset(tensor.sizes(), tensor.strides(), 0, 0, fill);
  });
  return tensor;
}

}  // namespace firesteel
