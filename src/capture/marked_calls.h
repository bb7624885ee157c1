// What the controls do inside a capture.
#pragma once

#include "capture/capture.h"
#include "capture/marks.h"

namespace firesteel::capture {

// A call of something the program has said something about.
PyRef call_as_marked(Capture& capture, PyObject* callable, const MarkRow& row, CallArgs args);
// A call of what nonstrict_trace(), disable() or run() have made.
PyRef call_marked_function(Capture& capture, PyObject* callable, CallArgs args);
// Ends the capture at an operator of torch.ops that the program does not want in graphs.
void pass_operator(Capture& capture, PyObject* op, const CallArgs& args);
// `gate(op, args, kwargs)` gives a text that says why, or None; no gate lets all of them pass.
void set_operator_gate(PyObject* gate);
// Making an object of a disabled class, or calling one, is a graph break.
void break_for_disabled_class(Capture& capture, PyTypeObject* type);

// The rules for the control functions themselves, called inside: row by row as `builtin_rule` wants them.
struct ControlRule {
  const char *module, *name;
  PyRef (*rule)(Capture& capture, PyObject* callable, CallArgs& args);
};
const std::vector<ControlRule>& control_rules();

}  // namespace firesteel::capture
