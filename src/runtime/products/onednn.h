// Products of float32 matrices by oneDNN, which torch has and offers through its dispatcher.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace firesteel {

// Whether torch has it, and the user has not switched it off.
bool has_onednn();

// left · weightᵀ, and a row added to each row of the result. Matrices may be transposed views.
at::Tensor onednn_linear(const at::Tensor& left, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias = std::nullopt);

// Products of the pairs of a batch: (batch, m, k) · (batch, k, n). Dimensions of a batch may repeat.
at::Tensor onednn_batch_product(const at::Tensor& left, const at::Tensor& right);

}  // namespace firesteel
