// Visits and replaces the tensors inside an operator's argument or result.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace firesteel {

// Calls `visit(const Tensor&)` for every defined tensor inside.
template <class F>
void each_tensor(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined()) visit(tensor);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

// Replaces every defined tensor inside by `map(tensor)`.
template <class F>
void map_tensors(c10::IValue& value, F&& map) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = map(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector())
      mapped.push_back(tensor.defined() ? at::Tensor(map(tensor)) : tensor);
    value = std::move(mapped);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(tensor && tensor->defined() ? std::optional<at::Tensor>(map(*tensor)) : tensor);
    }
    value = std::move(mapped);
  }
}

}  // namespace firesteel
