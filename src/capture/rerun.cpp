// What a graph may leave behind.
#include "capture/rerun.h"

#include <algorithm>

#include "aot/random_start.h"
#include "capture/capture.h"
#include "capture/runner.h"

namespace firesteel::capture {
namespace {

// A call that runs code of the user's: `apply` of a torch.autograd.Function is bound to its class.
bool is_bound_to_class(const Node& node) {
  PyObject* callable = static_cast<const TorchCall*>(node.op.callee.get())->callable.get();
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable)
                   : PyMethod_Check(callable)  ? PyMethod_GET_SELF(callable)
                                               : nullptr;
  return self && PyType_Check(self);
}

// It runs no code of the user's.
bool runs_torch_alone(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.getNamespace() == "aten" ||
         (name.getNamespace() == "firesteel" && name.name != "firesteel::opaque_backward");
}

Rerun without_errors(const Rerun& rerun) {
  Rerun on_data;
  on_data.allowed_on_data = rerun.allowed_on_data;
  return on_data;
}

// Where data breaks what an ATen graph takes for granted, its forward alone has run, and none of the Python that was
// traced.
bool may_run_on_data(const Trace& trace, const Capture& capture, const BackendChoice& backend) {
  if (!backend.runs_aten() || capture.calls_leaf || results_are_checked()) return false;
  const auto& nodes = trace.joint.graph.nodes;
  return std::all_of(nodes.begin(), nodes.end(), [](const auto& node) {
    if (node->phase == Phase::Backward) return true;
    return node->op.is_aten() && runs_torch_alone(*node->op.aten) && !op_facts(*node->op.aten).is_mutable;
  });
}

}  // namespace

Rerun rerun_of(const Trace& trace, const Capture& capture, const BackendChoice& backend) {
  Rerun rerun;
  rerun.allowed_on_data = may_run_on_data(trace, capture, backend);
  if (backend.kind == Backend::Callable || capture.calls_leaf || capture.ran_opaque_python || results_are_checked() ||
      (!backend.runs_aten() && !trace.joint.graph.mutations.empty()))
    return rerun;
  // Backend eager calls what the code calls; ATen graphs hold what that led to.
  const auto& called = capture.graph.nodes;
  if (!backend.runs_aten() &&
      std::any_of(called.begin(), called.end(), [](const auto& node) { return is_bound_to_class(*node); }))
    return rerun;
  for (const auto& node : trace.joint.graph.nodes) {
    if (!node->op.is_aten() || !runs_torch_alone(*node->op.aten)) return without_errors(rerun);
    const OpFacts facts = op_facts(*node->op.aten);
    if (facts.is_mutable || (facts.is_random && node->outputs.empty())) return without_errors(rerun);
    if (facts.is_random) add_generator_of(*node, rerun.generators);
  }
  rerun.allowed = true;
  return rerun;
}

}  // namespace firesteel::capture
