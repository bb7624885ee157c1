// `Function.apply` inside captured code, as one node of the graph.
#include "capture/autograd_functions.h"

#include <fmt/format.h>

#include "capture/as_it_is.h"
#include "capture/callables.h"
#include "capture/marks.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

// The node has a module as it is: no other one may come in its place, also where its parameters are inputs.
void pin_modules(Capture& capture, PyObject* value, int depth = 0) {
  constexpr int kDeepest = 6;
  if (is_nn_module(value)) {
    if (const Source* source = capture.source_of(value))
      capture.add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
  } else if ((PyList_Check(value) || PyTuple_Check(value)) && depth < kDeepest) {
    capture.consult(value);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      pin_modules(capture, PySequence_Fast_GET_ITEM(value, i), depth + 1);
  } else if (PyDict_Check(value) && depth < kDeepest) {
    capture.consult(value);
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, nullptr, &item)) pin_modules(capture, item, depth + 1);
  }
}

}  // namespace

PyRef call_autograd_function(Capture& capture, PyObject* apply, CallArgs args) {
  PyRef self = args.values.front();
  args.values.erase(args.values.begin());
  PyRef method = python::checked(PyMethod_New(apply, self.get()));
  auto* type = reinterpret_cast<PyTypeObject*>(self.get());
  for (const char* name : {"forward", "backward", "setup_context", "jvp", "vjp"}) {
    PyRef key = interned(name);
    PyObject* found = _PyType_Lookup(type, key.get());
    capture.guard_class_attribute(type, key.get(), found);
    if (!found || !Py_IS_TYPE(found, &PyStaticMethod_Type)) continue;
    PyRef function = python::checked(PyObject_GetAttrString(found, "__func__"));
    if (!PyFunction_Check(function.get())) continue;
    capture.admit(function.get(), capture.sources.pinned(function.get(), fmt::format("{}.{}", type->tp_name, name)));
    guard_defaults(capture, reinterpret_cast<PyFunctionObject*>(function.get()));
  }
  for (const PyRef& value : args.values) pin_modules(capture, value.get());
  const std::string name = fmt::format("{}.apply", type->tp_name);
  const size_t writes = capture.journal.writes();
  const bool follows = mark_of(self.get()).mark != Mark::Allowed;
  PyRef result = capture.torch_call(method.get(), name, args.tuple(), args.dict(), follows);
  // A graph that calls it again would write a second time.
  if (capture.journal.writes() != writes && (capture.runs_python_again || capture.calls_leaf))
    capture.stop(BreakReason::Write, fmt::format("the forward of `{}`", type->tp_name));
  return result;
}

bool is_autograd_apply(PyObject* function) {
  static PyObject* apply = [] {
    PyRef module = python::checked(PyImport_ImportModule("torch.autograd"));
    PyRef type = python::checked(PyObject_GetAttrString(module.get(), "Function"));
    PyRef bound = python::checked(PyObject_GetAttrString(type.get(), "apply"));
    return PyRef::borrow(PyMethod_GET_FUNCTION(bound.get())).release();
  }();
  return function == apply;
}

}  // namespace firesteel::capture
