// The data of small captured tensors, written in graph text and read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace firesteel {

// At most so many elements are written.
inline constexpr int64_t kSmallTensorElements = 8;

// `[1.0, 2.5]`, row by row; nullopt where the input holds no plain small CPU tensor of its type.
std::optional<std::string> small_tensor_text(const Input& input);

// How many elements a tensor of this type would list; nullopt where its data cannot be written.
std::optional<int64_t> small_tensor_count(const Type& type);

// A new tensor with these elements, `small_tensor_count(type)` of them.
at::Tensor make_small_tensor(const Type& type, const std::vector<c10::Scalar>& elements);

}  // namespace firesteel
