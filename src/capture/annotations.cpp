// Pushes and pops what nodes are told of the place of their calls. Blocks and frames end in the order they began.
#include "capture/annotations.h"

#include "python/errors.h"

namespace firesteel::capture {

using python::checked;

void push_module_stack(Capture& capture, const PyRef& entry) {
  const bool outermost = capture.module_stacks.empty();
  capture.module_stacks.push_back(
      outermost ? entry : checked(PySequence_Concat(capture.module_stacks.back().get(), entry.get())));
}

PyRef begin_notes(Capture& capture, PyObject*, CallArgs& args) {
  if (args.values.size() == 1 && PyDict_Check(args[0])) {
    capture.settle_deep(args[0]);
    PyRef notes = checked(PyDict_Copy(args[0]));
    push_module_stack(capture, checked(Py_BuildValue("((OsO))", Py_None, "", notes.get())));
    capture.modules.push_back(capture.modules.empty() ? std::string() : capture.modules.back());
  }
  return PyRef::borrow(Py_None);
}

// A block that an earlier piece began has nothing here.
PyRef end_notes(Capture& capture, PyObject*, CallArgs&) {
  if (!capture.module_stacks.empty()) {
    PyObject* stack = capture.module_stacks.back().get();
    PyObject* top = PyTuple_GET_ITEM(stack, PyTuple_GET_SIZE(stack) - 1);
    if (PyTuple_GET_ITEM(top, 0) == Py_None) {
      capture.module_stacks.pop_back();
      capture.modules.pop_back();
    }
  }
  return PyRef::borrow(Py_None);
}

}  // namespace firesteel::capture
