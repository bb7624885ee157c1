// Instructions for constants, variables, cells, attributes and the stack itself.
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

void FrameInterpreter::nop(int) {}
void FrameInterpreter::resume(int) { serve_interrupts(); }
void FrameInterpreter::pop_top(int) { pop(); }
void FrameInterpreter::push_null(int) { push({}); }
void FrameInterpreter::copy(int arg) { push(PyRef(top(arg))); }
void FrameInterpreter::swap(int arg) { std::swap(top(), top(arg)); }
void FrameInterpreter::load_const(int arg) { push(PyRef::borrow(PyTuple_GET_ITEM(code_->co_consts, arg))); }

void FrameInterpreter::load_fast(int arg) {
  PyRef& local = locals_[arg];
  if (!local) {
    capture_.stop(BreakReason::Exception,
                  fmt::format("UnboundLocalError: '{}' is not associated with a value",
                              python::text_of(PyTuple_GET_ITEM(code_->co_localsplusnames, arg))));
  }
  if (const Source* source = std::exchange(local_sources_[arg], nullptr)) {
    local = capture_.admit(local.get(), source);
  } else if (python::is_tensor(local.get())) {
    local = capture_.adopt(std::move(local));  // a default, or a value that C code bound
  }
  push(PyRef(local));
}

void FrameInterpreter::store_fast(int arg) {
  local_sources_[arg] = nullptr;
  locals_[arg] = pop();
}

void FrameInterpreter::delete_fast(int arg) {
  if (!locals_[arg]) capture_.stop(BreakReason::Exception, "UnboundLocalError");
  local_sources_[arg] = nullptr;
  locals_[arg] = {};
}

void FrameInterpreter::load_global(int arg) {
  PyObject* wanted = name(arg >> 1);
  PyObject* globals = fs_frame_globals(frame_);
  PyObject* builtins = fs_frame_builtins(frame_);
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins))
    capture_.stop(BreakReason::Attribute, "a global variable");
  const Source* in = capture_.sources.pinned(globals, "");
  PyObject* value = PyDict_GetItemWithError(globals, wanted);
  if (!value) {
    python::check(!PyErr_Occurred());
    capture_.add_guard({GuardKind::Absent, in, PyRef::borrow(wanted)});
    in = capture_.sources.pinned(builtins, "");
    value = PyDict_GetItemWithError(builtins, wanted);
  }
  if (!value)
    capture_.stop(BreakReason::Exception, fmt::format("NameError: name '{}' is not defined", python::text_of(wanted)));
  PyRef read = capture_.admit(value, capture_.sources.item(in, wanted));
  if (arg & 1) push({});
  push(std::move(read));
}

void FrameInterpreter::store_global(int arg) {
  capture_.stop(BreakReason::Write, fmt::format("the assignment to the global `{}`", python::text_of(name(arg))));
}

void FrameInterpreter::make_cell(int arg) {
  if (const Source* source = std::exchange(local_sources_[arg], nullptr)) {
    locals_[arg] = capture_.admit(locals_[arg].get(), source);
  }
  locals_[arg] = capture_.made(checked(PyCell_New(locals_[arg].get())));
}

void FrameInterpreter::copy_free_vars(int arg) {
  PyObject* function = fs_frame_function(frame_);
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(function)->func_closure;
  const Source* source = capture_.source_of(function);
  const int first = code_->co_nlocalsplus - arg;
  for (int i = 0; i < arg; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    locals_[first + i] = PyRef::borrow(cell);
    if (capture_.is_made(cell)) continue;
    // Reached through the function's own closure: a function of the same code that was made anew has other cells.
    if (!capture_.source_of(cell)) {
      if (!source) capture_.stop(BreakReason::Origin, "a variable of an outer function");
      const Source* in = capture_.sources.step(source, AccessKind::FunctionClosure);
      capture_.remember(cell, capture_.sources.item(in, i));
    }
    local_sources_[first + i] = capture_.sources.step(capture_.source_of(cell), AccessKind::CellContents);
  }
}

void FrameInterpreter::load_closure(int arg) { push(PyRef(locals_[arg])); }

void FrameInterpreter::load_deref(int arg) {
  PyObject* cell = locals_[arg].get();
  PyObject* value = PyCell_GET(cell);
  if (!value) capture_.stop(BreakReason::Exception, "NameError: a free variable is not associated with a value");
  const Source* source = local_sources_[arg];
  push(source ? capture_.admit(value, source) : capture_.adopt(PyRef::borrow(value)));
}

void FrameInterpreter::store_deref(int arg) {
  PyObject* cell = locals_[arg].get();
  if (!capture_.is_made(cell)) capture_.stop(BreakReason::Write, "the assignment to a variable of an outer function");
  python::check(PyCell_Set(cell, pop().get()) == 0);
}

void FrameInterpreter::load_attr(int arg) {
  PyRef object = pop();
  push(load_attribute(capture_, object.get(), name(arg)));
}

void FrameInterpreter::load_method_(int arg) {
  PyRef object = pop();
  bool takes_self = false;
  PyRef found = load_method(capture_, object.get(), name(arg), takes_self);
  if (!takes_self) {
    push({});
    push(std::move(found));
    return;
  }
  push(std::move(found));
  push(std::move(object));
}

void FrameInterpreter::store_attr(int arg) {
  capture_.stop(BreakReason::Write, fmt::format("setting or deleting `.{}`", python::text_of(name(arg))));
}

}  // namespace firesteel::capture
