// Shows a function of the program the variables of a frame, and does what it asks for.
#include "capture/show_inside.h"

#include "aot/dispatch_keys.h"
#include "capture/frame_interpreter.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

struct InsideView {
  PyRef callable, show;
};

// Guarded by the GIL; never destroyed.
InsideView& view() {
  static auto* held = new InsideView;
  return *held;
}

}  // namespace

void set_inside_view(PyObject* callable, PyObject* show) {
  view() = callable == Py_None ? InsideView() : InsideView{PyRef::borrow(callable), PyRef::borrow(show)};
}

bool shows_inside(PyObject* callable) { return view().callable && view().callable.get() == callable; }

PyRef FrameInterpreter::show_inside(PyObject* function) {
  if (capture_.concrete) return PyRef::borrow(Py_None);
  PyRef known = variables(), open = checked(PySet_New(nullptr));
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(known.get(), &position, &name, &value)) {
    if (capture_.is_open_number(value)) python::check(PySet_Add(open.get(), name) == 0);
  }
  PyRef answer;
  {
    Journal::Hidden hidden(capture_.journal);
    Suspended suspended(capture_);
    const OutsideTrace outside;
    answer = checked(PyObject_CallFunction(view().show.get(), "OOOsO", function, known.get(), open.get(),
                                           capture_.graph.str().c_str(), reinterpret_cast<PyObject*>(code_)));
  }
  if (!PyTuple_Check(answer.get())) return PyRef::borrow(Py_None);
  const std::string_view wish = python::text_of(PyTuple_GET_ITEM(answer.get(), 0));
  PyObject* text = PyTuple_GET_ITEM(answer.get(), 1);
  if (wish == "error") capture_.refuse("ControlError", std::string(python::text_of(text)));
  if (wish == "break") capture_.stop(BreakReason::GraphBreak, ": " + std::string(python::text_of(text)));
  PyRef names = checked(PyUnicode_Split(text, nullptr, -1));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
    capture_.settle(PyDict_GetItem(known.get(), PyList_GET_ITEM(names.get(), i)));
  return PyRef::borrow(Py_None);
}

}  // namespace firesteel::capture
