// Makes of plain results what eager would give.
#include "capture/result_kinds.h"

#include <algorithm>

#include <c10/core/InferenceMode.h>

#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyObject* parameter_class() {
  static PyObject* type =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch.nn")).get(), "Parameter")).release();
  return type;
}

}  // namespace

bool is_parameter(PyObject* tensor) { return reinterpret_cast<PyObject*>(Py_TYPE(tensor)) == parameter_class(); }

namespace {

// An inference tensor has no autograd keys and no version: one over the same memory, made where inference mode is on.
at::Tensor as_inference_tensor(const at::Tensor& tensor) {
  if (tensor.is_inference()) return tensor;
  const c10::InferenceMode on;
  const c10::TensorImpl* plain = tensor.unsafeGetTensorImpl();
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()), plain->key_set(), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return made;
}

[[noreturn]] void refuse_lost_history() {
  python::raise_as_is("GraphBreakError",
                      "a tensor that is made to require grad inside is given back, or what comes of it, and the "
                      "backend has cut its history\n"
                      "  why: it traces the graph, and then gives plain values\n"
                      "  try: make it outside the compiled function, or drop fullgraph=True");
}

class ResultKindsRunner final : public Runner {
 public:
  ResultKindsRunner(std::unique_ptr<Runner> inner, std::vector<ResultKind> kinds)
      : inner_(std::move(inner)), kinds_(std::move(kinds)) {}
  bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const override {
    if (!inner_->run(slots, outputs)) return false;
    for (size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i].keeps_history && !python::unpack(outputs[i].get()).requires_grad()) refuse_lost_history();
      if (kinds_[i].is_inference) outputs[i] = python::wrap(as_inference_tensor(python::unpack(outputs[i].get())));
      // The tensor's own object becomes one: autograd knows this very tensor as a leaf.
      if (kinds_[i].is_parameter && !is_parameter(outputs[i].get()))
        python::check(PyObject_SetAttrString(outputs[i].get(), "__class__", parameter_class()) == 0);
    }
    return true;
  }
  const Executable* executable() const override { return inner_->executable(); }
  std::vector<KernelResult> compare_kernels(PyObject* const* slots) const override {
    return inner_->compare_kernels(slots);
  }
  double compile_seconds() const override { return inner_->compile_seconds(); }
  int traverse(visitproc visit, void* arg) const override { return inner_->traverse(visit, arg); }
  std::vector<GraphWithInputs> parts_for(PyObject* const* slots) const override { return inner_->parts_for(slots); }

 private:
  std::unique_ptr<Runner> inner_;
  std::vector<ResultKind> kinds_;
};

}  // namespace

ResultKind kind_of_result(PyObject* stand_in) {
  ResultKind kind;
  kind.is_inference = python::unpack(stand_in).is_inference() && !c10::InferenceMode::is_enabled();
  kind.is_parameter = capture::is_parameter(stand_in);
  return kind;
}

std::unique_ptr<Runner> with_result_kinds(std::unique_ptr<Runner> runner, std::vector<ResultKind> kinds) {
  if (std::all_of(kinds.begin(), kinds.end(), [](const ResultKind& kind) { return kind.is_plain(); })) return runner;
  return std::make_unique<ResultKindsRunner>(std::move(runner), std::move(kinds));
}

}  // namespace firesteel::capture
