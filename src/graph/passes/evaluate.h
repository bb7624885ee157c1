// Runs one ATen node on real tensors, for passes that compute constants.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace firesteel {

// The node's tensors, flat as its outputs. `tensor_of` gives the tensor of an input value. No autograd, no autocast, no
// tracing. Throws what the operator throws.
std::vector<at::Tensor> evaluate(const Node& node, const std::function<at::Tensor(const Value*)>& tensor_of);

// Whether a tensor is what the type says: dtype, device, sizes and strides.
bool has_type(const at::Tensor& tensor, const Type& type);

}  // namespace firesteel
