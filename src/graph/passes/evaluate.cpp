// Runs one ATen node through the dispatcher.
#include "graph/passes/evaluate.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "base/error.h"
#include "graph/text.h"

namespace firesteel {
namespace {

using TensorOf = std::function<at::Tensor(const Value*)>;

bool is_tensor_slot(const c10::Type* slot) { return slot_kind(slot)->kind() == c10::TypeKind::TensorType; }

c10::IValue to_ivalue(const Arg& arg, const c10::Type* slot, const TensorOf& tensor_of) {
  switch (arg.kind) {
    case Arg::Kind::None:
      return slot->kind() == c10::TypeKind::TensorType ? c10::IValue(at::Tensor()) : c10::IValue();
    case Arg::Kind::Value:
      return tensor_of(arg.value);
    case Arg::Kind::Const: {
      if (!is_tensor_slot(slot)) return arg.constant;
      // A plain number in a tensor's place takes part in type promotion as a number.
      at::Tensor number = c10::scalar_to_tensor(arg.constant.toScalar());
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
    case Arg::Kind::List: {
      const c10::Type* element = element_slot(slot);
      FS_CHECK(element, "a list stands where the schema has none");
      c10::impl::GenericList list(slot_kind(slot)->containedTypes()[0]);
      for (const Arg& item : arg.items) list.push_back(to_ivalue(item, element, tensor_of));
      return list;
    }
    default:
      FS_CHECK(false, "an ATen operator takes no tuple or dict");
  }
}

}  // namespace

std::vector<at::Tensor> evaluate(const Node& node, const TensorOf& tensor_of) {
  c10::InferenceMode no_inference_mode(false);
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::Fake,
                           c10::DispatchKey::Functionalize}));
  const auto& arguments = node.op.aten->schema().arguments();
  std::vector<c10::IValue> stack;
  for (size_t i = 0; i < node.args.size(); i++)
    stack.push_back(to_ivalue(node.args[i], arguments[i].type().get(), tensor_of));
  node.op.aten->callBoxed(stack);
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& result : stack) {
    if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) tensors.push_back(tensor);
    } else {
      tensors.push_back(result.toTensor());
    }
  }
  return tensors;
}

bool has_type(const at::Tensor& tensor, const Type& type) {
  if (!tensor.defined() || !type.is_tensor() || tensor.layout() != c10::kStrided) return false;
  auto same = [](c10::IntArrayRef numbers, const std::vector<Dim>& dims) {
    return std::equal(numbers.begin(), numbers.end(), dims.begin(), dims.end(),
                      [](int64_t n, const Dim& dim) { return Dim(n) == dim; });
  };
  return tensor.scalar_type() == type.dtype && tensor.device() == type.device &&
         tensor.requires_grad() == type.requires_grad && same(tensor.sizes(), type.sizes) &&
         same(tensor.strides(), type.strides);
}

}  // namespace firesteel
