// Instructions that only CPython 3.12 has, or has in this form.
#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "python/errors.h"

#include <internal/pycore_intrinsics.h>  // after Python.h

namespace firesteel::capture {

using python::checked;

// The lowest bit: for a call.
void FrameInterpreter::load_attr(int arg) { arg & 1 ? push_method(name(arg >> 1)) : push_attribute(name(arg >> 1)); }

// `super().name`, or `super(type, self).name` where the second bit is set.
void FrameInterpreter::load_super_attr(int arg) {
  PyRef self = pop(), type = pop(), super = pop();
  if (super.get() == reinterpret_cast<PyObject*>(&PySuper_Type)) {
    push(capture_.made(checked(PyObject_CallFunctionObjArgs(super.get(), type.get(), self.get(), nullptr))));
  } else {
    CallArgs args;
    if (arg & 2) args.values = {type, self};
    push(call(capture_, super.get(), std::move(args)));
  }
  arg & 1 ? push_method(name(arg >> 2)) : push_attribute(name(arg >> 2));
}

// Comprehensions run in the frame of their function: a variable of the same name is put aside, bound or not.
void FrameInterpreter::load_fast_and_clear(int arg) {
  if (const Source* source = std::exchange(local_sources_[arg], nullptr))
    locals_[arg] = capture_.admit(locals_[arg].get(), source);
  push(PyRef(locals_[arg]));
  set_local(arg, {});
}

void FrameInterpreter::binary_slice(int) {
  PyRef stop = pop(), start = pop(), object = pop();
  PyRef slice = checked(PySlice_New(start.get(), stop.get(), nullptr));
  push(get_item(capture_, object.get(), slice.get()));
}

void FrameInterpreter::store_slice(int) {
  PyRef stop = pop(), start = pop(), object = pop(), value = pop();
  PyRef slice = checked(PySlice_New(start.get(), stop.get(), nullptr));
  set_item(capture_, object.get(), slice.get(), value.get());
}

void FrameInterpreter::end_for(int) {
  pop();
  pop();
}

void FrameInterpreter::end_send(int) {
  PyRef value = pop();
  top() = std::move(value);
}

void FrameInterpreter::return_const(int arg) {
  result_ = PyRef::borrow(PyTuple_GET_ITEM(code_->co_consts, arg));
  now_ = State::Returned;
}

// An exception thrown into a generator came back from the iterator that it delegates to.
void FrameInterpreter::cleanup_throw(int) {
  PyRef exception = pop();
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) {
    PyErr_SetRaisedException(exception.release());
    reraises_ = true;
    python::throw_python_error();
  }
  pop();
  top() = PyRef::borrow(Py_None);
  push(PyRef::borrow(reinterpret_cast<PyStopIterationObject*>(exception.get())->value));
}

void FrameInterpreter::call_intrinsic(int arg) {
  switch (arg) {
#define X(intrinsic, handler) \
  case intrinsic:             \
    return handler(0);
    FIRESTEEL_INTRINSICS(X)
#undef X
    default:
      capture_.stop(BreakReason::Opcode, "CALL_INTRINSIC_1");
  }
}

// A StopIteration that leaves a generator would be taken for its end.
void FrameInterpreter::stopiteration_error(int) {
  PyRef& exception = top();
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) return;
  PyRef error = checked(PyObject_CallFunction(PyExc_RuntimeError, "s", "generator raised StopIteration"));
  PyException_SetCause(error.get(), PyRef(exception).release());
  PyException_SetContext(error.get(), PyRef(exception).release());
  exception = capture_.made(std::move(error));
}

}  // namespace firesteel::capture
