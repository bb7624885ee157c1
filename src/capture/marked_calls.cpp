// The controls as a capture meets them: marked callables, and the control functions called inside.
#include "capture/marked_calls.h"

#include <fmt/format.h>

#include "aot/dispatch_keys.h"
#include "capture/arrays.h"
#include "capture/branch_calls.h"
#include "capture/callables.h"
#include "capture/frame_hook.h"
#include "capture/late_calls.h"
#include "capture/marked_function.h"
#include "guards/ambient.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

std::string name_of(PyObject* callable) {
  PyRef name = python::attribute(callable, "__qualname__");
  return name && PyUnicode_Check(name.get()) ? std::string(python::text_of(name.get())) : python::spell(callable);
}

[[noreturn]] void break_for_disabled(Capture& capture, const std::string& name, const std::string& reason) {
  capture.stop(BreakReason::Disabled,
               reason.empty() ? fmt::format("`{}`", name) : fmt::format("`{}` ({})", name, reason));
}

// Runs now, on the program's own objects; what it gives holds for every later call.
PyRef constant_result(Capture& capture, PyObject* callable, CallArgs args) {
  for (PyRef& value : args.values) {
    capture.settle_deep(value.get());
    if (!python::is_tensor(value.get()) || !capture.is_stand_in(value.get())) continue;
    PyObject* real = capture.real_of(value.get());
    if (!real) {
      capture.refuse("ControlError",
                     fmt::format("`{}` under assume_constant_result() is given a tensor that the compiled "
                                 "function computes: its result is no constant",
                                 name_of(callable)));
    }
    value = PyRef::borrow(real);
  }
  PyRef result;
  {
    Journal::Hidden hidden(capture.journal);
    Suspended suspended(capture);
    OutsideTrace outside;
    result = args.call(callable);
  }
  if (is_guardable_constant(result.get()) || capture.source_of(result.get())) return capture.adopt(std::move(result));
  return capture.admit(result.get(), capture.sources.kept(result.get(), name_of(callable) + "(…)"));
}

// ---- the control functions

std::string given_text(const CallArgs& args) {
  if (args.values.empty() || !PyUnicode_Check(args[0]) || PyUnicode_GET_LENGTH(args[0]) == 0) return {};
  return fmt::format(": {}", python::text_of(args[0]));
}

PyRef graph_break(Capture& capture, PyObject*, CallArgs& args) {
  capture.stop(BreakReason::GraphBreak, given_text(args));
}

PyRef break_for_array(Capture& capture, PyObject*, CallArgs& args) {
  capture.stop(BreakReason::Numpy, std::string(python::text_of(args[0])));
}

PyRef skip_frame(Capture& capture, PyObject*, CallArgs& args) {
  capture.stop(BreakReason::SkipFrame, given_text(args));
}

PyRef yes(Capture&, PyObject*, CallArgs&) { return PyRef::borrow(Py_True); }
PyRef no(Capture&, PyObject*, CallArgs&) { return PyRef::borrow(Py_False); }

// What it sets is part of the state at a segment's border, and no work of the graph.
PyRef set_break_policy(Capture& capture, PyObject* callable, CallArgs& args) {
  Suspended suspended(capture);
  return args.call(callable);
}

PyRef mark_nonstrict(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || args.keyword_count() || !PyCallable_Check(args[0])) return args.call(callable);
  PyObject* function = args[0];
  if (marked_callable(function)) return args.values[0];
  const Source* source = capture.source_of(function);
  if (!source) {
    capture.refuse("ControlError",
                   fmt::format("nonstrict_trace() is given `{}`, a function made inside the compiled function\n"
                               "  try: define it outside, and pass what it needs as arguments",
                               name_of(function)));
  }
  // What it reads besides its arguments is not guarded: it must be this very function.
  capture.add_guard({GuardKind::Identity, source, PyRef::borrow(function)});
  return capture.made(new_marked_function(function, FunctionMark::Nonstrict));
}

PyRef refuse_stance(Capture& capture, PyObject*, CallArgs&) {
  capture.refuse("ControlError", "set_stance() is called inside a compiled function\n  try: set it around the call");
}

// Guarded by the GIL; never destroyed.
PyRef& operator_gate() {
  static auto* gate = new PyRef;
  return *gate;
}

}  // namespace

void set_operator_gate(PyObject* gate) { operator_gate() = gate == Py_None ? PyRef() : PyRef::borrow(gate); }

void pass_operator(Capture& capture, PyObject* op, const CallArgs& args) {
  if (!operator_gate()) return;
  PyRef reason;
  {
    Suspended suspended(capture);
    PyRef keywords = args.dict();
    reason = python::checked(PyObject_CallFunctionObjArgs(operator_gate().get(), op, args.tuple().get(),
                                                          keywords ? keywords.get() : Py_None, nullptr));
  }
  if (PyUnicode_Check(reason.get())) capture.stop(BreakReason::Disallowed, std::string(python::text_of(reason.get())));
}

PyRef call_as_marked(Capture& capture, PyObject* callable, const MarkRow& row, CallArgs args) {
  switch (row.mark) {
    case Mark::Allowed:
      return capture.allowed_call(callable, args);
    case Mark::Disallowed: {
      const std::string* leaf = torch_leaf(callable);
      capture.stop(BreakReason::Disallowed, leaf ? *leaf : name_of(callable));
    }
    case Mark::Disabled:
      break_for_disabled(capture, name_of(callable), row.reason);
    case Mark::Forbidden:
      capture.refuse("ControlError",
                     fmt::format("`{}` is called inside a compiled function, and forbid_in_graph() says "
                                 "that it must not be\n  try: disallow_in_graph() for a graph break",
                                 name_of(callable)));
    case Mark::Constant:
      return constant_result(capture, callable, std::move(args));
    case Mark::Leaf:
      return capture.leaf_call(callable, row.object.get(), std::move(args));
    case Mark::Late:
      return LateCalls::leave(capture, callable, args);
    case Mark::Substituted: {
      PyObject* function = row.object.get();
      capture.admit(function, capture.sources.pinned(function, name_of(function)));
      return call(capture, function, std::move(args));
    }
    case Mark::None:
      break;
  }
  capture.stop(BreakReason::Internal, "a mark that means nothing");
}

PyRef call_marked_function(Capture& capture, PyObject* callable, CallArgs args) {
  PyObject* function = marked_callable(callable);
  switch (mark_on(callable)) {
    case FunctionMark::Nonstrict:
      return capture.nonstrict_call(function, std::move(args));
    case FunctionMark::Disabled:
    case FunctionMark::Skipped:
      break_for_disabled(capture, name_of(function), reason_on(callable));
    case FunctionMark::RunOnly:
      break;
  }
  capture.admit(function, capture.sources.pinned(function, name_of(function)));
  return call(capture, function, std::move(args));
}

PyRef call_from_c(Capture& capture, PyObject* callable, PyObject* const* args, size_t positional, PyObject* keywords) {
  CallArgs given;
  const size_t count = positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  for (size_t i = 0; i < count; ++i) given.values.push_back(PyRef::borrow(args[i]));
  given.keywords = PyRef::borrow(keywords);
  try {
    PyRef result = call(capture, callable, std::move(given));
    capture.settle_deep(result.get());  // C code may look at it
    return result;
  } catch (const Break& found) {
    capture.broken = found;
  }
  // Crosses C code as an error that nobody sees.
  PyErr_SetString(PyExc_RuntimeError, "the capture was given up");
  python::throw_python_error();
}

void break_for_disabled_class(Capture& capture, PyTypeObject* type) {
  if (const MarkRow row = mark_of_class(type); row.mark == Mark::Disabled)
    break_for_disabled(capture, name_of(reinterpret_cast<PyObject*>(type)), row.reason);
}

const std::vector<ControlRule>& control_rules() {
  static const auto* rows = new std::vector<ControlRule>{
      {"firesteel", "graph_break", graph_break},
      {"firesteel", "skip_frame", skip_frame},
      {"firesteel", "nonstrict_trace", mark_nonstrict},
      {"firesteel", "set_stance", refuse_stance},
      {"firesteel._C", "_set_stance", refuse_stance},
      {"firesteel._C", "_set_break_policy", set_break_policy},
      {"firesteel._C", "_break_for_array", break_for_array},
      {"firesteel._C", "_write_to_array", write_to_array},
      {"firesteel._C", "is_compiling", yes},
      {"firesteel._C", "is_dynamo_compiling", yes},
      {"firesteel._C", "is_exporting", no},
      {"torch", "cond", choose_branch},
      {"torch", "while_loop", loop_on_data},
  };
  return *rows;
}

}  // namespace firesteel::capture
