// Instructions for exceptions, `with` and generators.
#include <fmt/format.h>

#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "capture/outside_iterators.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyObject*& handled(PyThreadState* state) { return state->exc_info->exc_value; }

// Sets the error as it is, with the traceback it has.
void restore(PyObject* exception) {
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception))), Py_NewRef(exception),
                PyException_GetTraceback(exception));
}

}  // namespace

// The frames of a traceback that the capture made hold stand-ins, and go with it: there is nothing to let go of.
PyRef forget_frames(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);  // raises
  if (capture.source_of(args[0])) refuse(capture, callable);
  return PyRef::borrow(Py_None);
}

void FrameInterpreter::load_assertion_error(int) { push(PyRef::borrow(PyExc_AssertionError)); }

void FrameInterpreter::push_exc_info(int) {
  PyRef exception = pop();
  PyObject*& place = handled(state_);
  push(place ? PyRef::steal(place) : PyRef::borrow(Py_None));
  place = PyRef(exception).release();
  push(std::move(exception));
}

void FrameInterpreter::pop_except(int) {
  PyRef old = PyRef::steal(handled(state_));
  handled(state_) = pop().release();
}

void FrameInterpreter::check_exc_match(int) {
  PyRef type = pop();
  if (!capture_.concrete) capture_.consult(type.get());
  const Py_ssize_t count = PyTuple_Check(type.get()) ? PyTuple_GET_SIZE(type.get()) : 1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* one = PyTuple_Check(type.get()) ? PyTuple_GET_ITEM(type.get(), i) : type.get();
    if (!PyExceptionClass_Check(one))
      raise_python(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  }
  push(PyRef::borrow(PyErr_GivenExceptionMatches(top().get(), type.get()) ? Py_True : Py_False));
}

void FrameInterpreter::reraise(int arg) {
  PyRef exception = pop();
  if (arg) {
    const long at = PyLong_AsLong(top(arg).get());
    fs_frame_set_instruction(frame_, static_cast<int>(at));
  }
  restore(exception.get());
  reraises_ = true;
  python::throw_python_error();
}

void FrameInterpreter::raise_varargs(int arg) {
  if (arg == 0) {
    PyObject* current = handled(state_);
    if (!current || current == Py_None) raise_python(PyExc_RuntimeError, "No active exception to reraise");
    restore(current);
    reraises_ = true;
    python::throw_python_error();
  }
  PyRef cause = arg == 2 ? pop() : PyRef();
  PyRef exception = pop();
  if (PyExceptionClass_Check(exception.get())) {
    exception = call(capture_, exception.get(), {});
    if (!PyExceptionInstance_Check(exception.get()))
      raise_python(PyExc_TypeError, fmt::format("calling {} should have returned an instance of BaseException, not {}",
                                                Py_TYPE(exception.get())->tp_name, Py_TYPE(exception.get())->tp_name));
  }
  if (!PyExceptionInstance_Check(exception.get()))
    raise_python(PyExc_TypeError, "exceptions must derive from BaseException");
  if (!capture_.concrete && capture_.source_of(exception.get()))
    capture_.stop(BreakReason::Write, "raising an exception object from outside");
  if (cause) {
    if (PyExceptionClass_Check(cause.get())) cause = call(capture_, cause.get(), {});
    if (cause.get() == Py_None) {
      PyException_SetCause(exception.get(), nullptr);
    } else if (PyExceptionInstance_Check(cause.get())) {
      PyException_SetCause(exception.get(), PyRef(cause).release());
    } else {
      raise_python(PyExc_TypeError, "exception causes must derive from BaseException");
    }
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  python::throw_python_error();
}

void FrameInterpreter::before_with(int) {
  PyRef manager = pop();
  PyRef enter = special_method(capture_, manager.get(), "__enter__");
  if (!enter) {
    raise_python(PyExc_TypeError, fmt::format("'{}' object does not support the context manager protocol",
                                              Py_TYPE(manager.get())->tp_name));
  }
  PyRef exit = special_method(capture_, manager.get(), "__exit__");
  if (!exit) {
    raise_python(PyExc_TypeError,
                 fmt::format("'{}' object does not support the context manager protocol (missed __exit__ method)",
                             Py_TYPE(manager.get())->tp_name));
  }
  PyRef entered = call(capture_, enter.get(), {});
  push(std::move(exit));
  push(std::move(entered));
}

void FrameInterpreter::with_except_start(int) {
  PyRef exception = top();
  PyRef traceback = PyRef::steal(PyException_GetTraceback(exception.get()));
  // One from outside has another way behind it at every call.
  if (traceback && !capture_.concrete && !capture_.is_made(exception.get()))
    capture_.stop(BreakReason::Value, "a traceback from outside");
  CallArgs args;
  args.values = {PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(exception.get()))), exception,
                 traceback ? traceback : PyRef::borrow(Py_None)};
  push(call(capture_, top(4).get(), std::move(args)));
}

void FrameInterpreter::get_yield_from_iter(int) {
  PyRef value = pop();
  if (PyCoro_CheckExact(value.get())) capture_.stop(BreakReason::Generator, "await");
  push(get_iterator(capture_, value.get()));
}

void FrameInterpreter::send(int arg) {
  PyRef value = pop();
  if (!capture_.concrete && !capture_.is_made(top().get()) && !OutsideIterators::is_twin(top().get()))
    stop_at_iterator(capture_, top().get());
  PyObject* given = nullptr;
  const PySendResult status = PyIter_Send(top().get(), value.get(), &given);
  PyRef result = PyRef::steal(given);
  if (status == PYGEN_ERROR) python::throw_python_error();
  result = capture_.adopt(std::move(result));
  if (status == PYGEN_RETURN) {
    if (!kSendKeepsReceiver) pop();
    next_ += arg;
  }
  push(std::move(result));
}

void FrameInterpreter::yield_value(int) {
  if (!fs_frame_generator(frame_)) capture_.stop(BreakReason::Generator, "yield");
  result_ = pop();
  now_ = State::Yielded;
}

}  // namespace firesteel::capture
