// Builtins that are called once, while the code is captured: eval() of a constant text, the lines of a traceback.
#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

// The lines of a traceback, which the capture has written as eager code would.
PyRef lines_of_traceback(Capture& capture, PyObject* callable, CallArgs& args) {
  for (const PyRef& value : args.values) {
    if (!PyTraceBack_Check(value.get()) && !is_guardable_constant(value.get())) refuse(capture, callable);
  }
  if (capture.source_of(args[0]) && args[0] != Py_None) refuse(capture, callable);
  for (const PyRef& value : args.values) capture.settle(value.get());
  Suspended suspended(capture);
  return capture.made(args.call(callable));
}

// eval() of a text that reads no names: a constant.
PyRef evaluate(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || !PyUnicode_CheckExact(args[0])) refuse(capture, callable);
  Suspended suspended(capture);
  PyRef stripped = checked(PyObject_CallMethod(args[0], "strip", nullptr));
  PyRef code = checked(Py_CompileString(PyUnicode_AsUTF8(stripped.get()), "<string>", Py_eval_input));
  PyRef names = python::attribute(code.get(), "co_names"), constants = python::attribute(code.get(), "co_consts");
  bool plain = PyTuple_GET_SIZE(names.get()) == 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants.get()); ++i)
    plain &= !PyCode_Check(PyTuple_GET_ITEM(constants.get(), i));
  if (!plain) refuse(capture, callable);
  PyRef globals = checked(PyDict_New());
  return capture.made(checked(PyEval_EvalCode(code.get(), globals.get(), globals.get())));
}

}  // namespace firesteel::capture
