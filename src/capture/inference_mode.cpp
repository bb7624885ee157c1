// Entering and leaving inference mode while capturing, and what is made of it when the graph runs.
#include "capture/inference_mode.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/modes.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyRef own_function(const char* name) {
  PyRef module = checked(PyImport_ImportModule("firesteel._C"));
  return checked(PyObject_GetAttrString(module.get(), name));
}

PyObject* context_name() {
  static PyObject* name = interned("_inference_mode_context").release();
  return name;
}

class ModeKeepingRunner final : public Runner {
 public:
  explicit ModeKeepingRunner(std::unique_ptr<Runner> inner) : inner_(std::move(inner)) {}
  bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const override {
    const TorchModes before = TorchModes::current();
    try {
      return inner_->run(slots, outputs);
    } catch (...) {
      before.apply();
      throw;
    }
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
};

}  // namespace

PyObject* entering_function() {
  static PyObject* function = own_function("_enter_inference_mode").release();
  return function;
}

PyObject* leaving_function() {
  static PyObject* function = own_function("_leave_inference_mode").release();
  return function;
}

PyRef enter_block(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);  // raises
  PyRef mode = load_attribute(capture, args[0], interned("mode").get());
  if (!PyBool_Check(mode.get())) capture.stop(BreakReason::Value, "inference_mode() with a mode that is no bool");
  if (capture.inference_blocks.empty()) capture.inference_around = c10::InferenceMode::is_enabled();
  // Gradients are not traced there, as nothing could ask for them.
  if (mode.get() == Py_False && capture.inference_around)
    capture.stop(BreakReason::Value, "inference mode that was on before the call is switched off");
  // Stands for the object that torch keeps there, which leaves the mode when it dies. It has no recipe: a piece ends
  // before the block or after it.
  static char place;
  PyRef context = capture.made(checked(PyCapsule_New(&place, "torch.inference_mode", nullptr)));
  generic_store(capture, args[0], context_name(), context.get());
  capture.effect_call(entering_function(), "firesteel.enter_inference_mode", CallArgs{{mode}, {}});
  capture.inference_blocks.push_back(std::move(context));
  return PyRef::borrow(Py_None);
}

PyRef leave_block(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 4) return args.call(callable);  // raises
  PyObject* dict = guards::instance_dict(args[0]);
  PyObject* context = dict ? PyDict_GetItemWithError(dict, context_name()) : nullptr;
  if (!context || capture.inference_blocks.empty() || capture.inference_blocks.back().get() != context)
    capture.stop(BreakReason::Value, "inference mode that was switched on elsewhere is left");
  capture.effect_call(leaving_function(), "firesteel.leave_inference_mode", {});
  capture.inference_blocks.pop_back();
  return PyRef::borrow(Py_None);
}

std::unique_ptr<Runner> make_mode_keeping_runner(std::unique_ptr<Runner> runner) {
  return std::make_unique<ModeKeepingRunner>(std::move(runner));
}

}  // namespace firesteel::capture
