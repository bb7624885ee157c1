// torch.cond and torch.while_loop: one node, which calls the functions that it is given at every call.
//
// Which of them runs is a matter of data. What lies in their closures becomes an argument of the node, so that tensors
// of the graph reach them, and gradients come back.
#include <fmt/format.h>

#include "capture/branch_calls.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr int kDeepest = 8;

// What lies in cells from outside, of functions from there or made inside, is read there, under guards.
void admit_closure(Capture& capture, PyObject* value, int depth = 0) {
  if (PyMethod_Check(value)) return admit_closure(capture, PyMethod_GET_FUNCTION(value), depth);
  if (!PyFunction_Check(value) || depth == kDeepest) return;
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(value)->func_closure;
  const Source* source = capture.is_made(value) ? nullptr : capture.source_of(value);
  const Source* at = source ? capture.sources.step(source, AccessKind::FunctionClosure) : nullptr;
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    PyObject* held = PyCell_GET(cell);
    if (!held) continue;
    const Source* place = at ? capture.sources.item(at, static_cast<int64_t>(i)) : capture.source_of(cell);
    if (at) capture.remember(cell, place);
    // A cell that the captured code has written to holds what it has written.
    const bool unchanged = place && !capture.journal.touched(cell);
    if (unchanged) capture.admit(held, capture.sources.step(place, AccessKind::CellContents));
    admit_closure(capture, held, depth + 1);
  }
}

// firesteel._branches plans the call: what to call with which values.
PyRef call_planned(Capture& capture, PyObject* callable, CallArgs& args, const char* planner) {
  for (const PyRef& value : args.values) admit_closure(capture, value.get());
  PyRef plan;
  {
    Suspended suspended(capture);
    PyRef module = checked(PyImport_ImportModule("firesteel._branches"));
    PyRef make = checked(PyObject_GetAttrString(module.get(), planner));
    plan = args.call(make.get());
  }
  if (plan.get() == Py_None) {
    PyRef name = python::attribute(callable, "__name__");
    capture.stop(BreakReason::CFunction, fmt::format("torch.{}", python::text_of(name.get())));
  }
  CallArgs given;
  PyRef values = PyRef::borrow(PyTuple_GET_ITEM(plan.get(), 1));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values.get()); ++i)
    given.values.push_back(PyRef::borrow(PyTuple_GET_ITEM(values.get(), i)));
  PyObject* node = PyTuple_GET_ITEM(plan.get(), 0);
  PyRef traced = checked(PyObject_GetAttrString(node, "trace"));
  return capture.leaf_call(node, traced.get(), given);
}

}  // namespace

PyRef choose_branch(Capture& capture, PyObject* callable, CallArgs& args) {
  const size_t given = args.positional();
  if (given < 3 || given > 4 || args.keyword_count()) return call_planned(capture, callable, args, "plan_choice");
  if (python::is_tensor(args[0])) return call_planned(capture, callable, args, "plan_choice");
  // Python decides, or a size.
  CallArgs operands;
  const bool taken = is_true(capture, args[0]);
  if (given == 4) {
    PyRef items = get_iterator(capture, args[3]);
    while (PyRef item = next_of(capture, items.get())) operands.values.push_back(std::move(item));
  }
  return call(capture, args[taken ? 1 : 2], std::move(operands));
}

PyRef loop_on_data(Capture& capture, PyObject* callable, CallArgs& args) {
  return call_planned(capture, callable, args, "plan_loop");
}

}  // namespace firesteel::capture
