// Instructions for constants, variables, cells, attributes and the stack itself.
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "capture/same_values.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

void FrameInterpreter::nop(int) {}
void FrameInterpreter::resume(int) { serve_interrupts(); }
void FrameInterpreter::pop_top(int) { pop_open(); }
void FrameInterpreter::push_null(int) { push({}); }
void FrameInterpreter::copy(int arg) { push(PyRef(top(arg))); }
void FrameInterpreter::swap(int arg) { std::swap(top(), top(arg)); }
void FrameInterpreter::load_const(int arg) { push(PyRef::borrow(PyTuple_GET_ITEM(code_->co_consts, arg))); }

namespace {

std::string local_name(PyCodeObject* code, int index) {
  return std::string(python::text_of(PyTuple_GET_ITEM(code->co_localsplusnames, index)));
}

// What a node gives is called as the first variable that holds it.
void name_after_variable(Capture& capture, PyObject* value, PyCodeObject* code, int index) {
  if (capture.concrete || capture.unrecorded || !value || !python::is_tensor(value) || !capture.is_stand_in(value))
    return;
  Value* made = capture.value_of(value);
  if (made->def && made->name.empty()) made->name = local_name(code, index);
}

}  // namespace

void FrameInterpreter::load_fast(int arg) {
  PyRef& local = locals_[arg];
  if (!local) {
    raise_python(PyExc_UnboundLocalError,
                 fmt::format("cannot access local variable '{}' where it is not associated with a value",
                             local_name(code_, arg)));
  }
  if (const Source* source = std::exchange(local_sources_[arg], nullptr)) {
    local = capture_.admit_value(local.get(), source);
  } else if (python::is_tensor(local.get())) {
    local = capture_.adopt(std::move(local));  // a default, or a value that C code bound
  }
  push(PyRef(local));
}

void FrameInterpreter::store_fast(int arg) {
  name_after_variable(capture_, top().get(), code_, arg);
  set_local(arg, pop_open());
}

void FrameInterpreter::delete_fast(int arg) {
  if (!locals_[arg]) {
    raise_python(PyExc_UnboundLocalError,
                 fmt::format("cannot access local variable '{}' where it is not associated with a value",
                             local_name(code_, arg)));
  }
  set_local(arg, {});
}

// The frame's global variables, as an object that can be written to.
PyRef FrameInterpreter::globals_dict(const Source*& source) {
  PyObject* globals = fs_frame_globals(frame_);
  if (!PyDict_CheckExact(globals)) capture_.stop(BreakReason::Attribute, "a global variable");
  source = capture_.source_of(globals);
  if (!source) {
    source = capture_.sources.pinned(globals, "");
    if (!capture_.concrete) capture_.remember(globals, source);
  }
  return PyRef::borrow(globals);
}

// Other global variables may come with other builtins.
void FrameInterpreter::guard_builtins(PyObject* globals, const Source* in) {
  static PyObject* name = interned("__builtins__").release();
  PyObject* builtins = PyDict_GetItemWithError(globals, name);
  if (!builtins) return capture_.guard_absent(globals, in, name);
  capture_.add_guard({GuardKind::Identity, capture_.sources.item(in, name), PyRef::borrow(builtins)});
}

PyRef FrameInterpreter::load_name(PyObject* wanted) {
  const Source* in = nullptr;
  PyRef globals = globals_dict(in);
  if (PyObject* value = PyDict_GetItemWithError(globals.get(), wanted))
    return capture_.read_key(globals.get(), in, wanted, value);
  python::check(!PyErr_Occurred());
  capture_.guard_absent(globals.get(), in, wanted);
  PyObject* builtins = fs_frame_builtins(frame_);
  if (!PyDict_CheckExact(builtins)) capture_.stop(BreakReason::Attribute, "a builtin");
  PyObject* value = PyDict_GetItemWithError(builtins, wanted);
  if (!value)
    raise_name_error(PyExc_NameError, fmt::format("name '{}' is not defined", python::text_of(wanted)), wanted);
  if (!capture_.concrete && in && !in->is_object()) guard_builtins(globals.get(), in);
  return capture_.read_key(builtins, capture_.sources.pinned(builtins, ""), wanted, value);
}

void FrameInterpreter::load_build_class(int) {
  PyObject* build = PyDict_GetItemString(fs_frame_builtins(frame_), "__build_class__");
  if (!build) raise_python(PyExc_NameError, "__build_class__ not found");
  push(PyRef::borrow(build));
}

void FrameInterpreter::load_global(int arg) {
  PyRef value = load_name(name(arg >> 1));
  if (arg & 1) push({});
  push(std::move(value));
}

void FrameInterpreter::store_global(int arg) {
  const Source* in = nullptr;
  PyRef globals = globals_dict(in);
  capture_.before_write(globals.get());
  const PyRef value = pop();
  guard_same(capture_, globals.get(), name(arg), value.get());
  python::check(PyDict_SetItem(globals.get(), name(arg), value.get()) == 0);
}

void FrameInterpreter::delete_global(int arg) {
  const Source* in = nullptr;
  PyRef globals = globals_dict(in);
  const int there = PyDict_Contains(globals.get(), name(arg));
  if (there <= 0)
    raise_name_error(PyExc_NameError, fmt::format("name '{}' is not defined", python::text_of(name(arg))), name(arg));
  capture_.read_key(globals.get(), in, name(arg), PyDict_GetItem(globals.get(), name(arg)));
  capture_.before_write(globals.get());
  python::check(PyDict_DelItem(globals.get(), name(arg)) == 0);
}

void FrameInterpreter::make_cell(int arg) {
  if (const Source* source = std::exchange(local_sources_[arg], nullptr)) {
    locals_[arg] = capture_.admit_value(locals_[arg].get(), source);
  }
  // A tuple is `*args` here, which is taken apart again by who calls on.
  const bool stays_open = locals_[arg] && PyTuple_CheckExact(locals_[arg].get());
  const PyRef value = stays_open ? locals_[arg] : capture_.closed(locals_[arg]);
  set_local(arg, capture_.made(checked(PyCell_New(value.get()))));
}

void FrameInterpreter::copy_free_vars(int arg) {
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(fs_frame_function(frame_))->func_closure;
  const int first = code_->co_nlocalsplus - arg;
  for (int i = 0; i < arg; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    set_local(first + i, PyRef::borrow(cell));
  }
}

void FrameInterpreter::load_closure(int arg) {
  if (const Source* source = std::exchange(local_sources_[arg], nullptr)) capture_.admit(locals_[arg].get(), source);
  push(PyRef(locals_[arg]));
}

void FrameInterpreter::load_deref(int arg) {
  if (const Source* at = std::exchange(local_sources_[arg], nullptr)) capture_.admit(locals_[arg].get(), at);
  PyObject* cell = locals_[arg].get();
  PyObject* value = PyCell_GET(cell);
  if (!value) {
    const bool is_free = arg >= code_->co_nlocalsplus - code_->co_nfreevars;
    raise_python(is_free ? PyExc_NameError : PyExc_UnboundLocalError,
                 fmt::format("cannot access {} variable '{}' where it is not associated with a value{}",
                             is_free ? "free" : "local", local_name(code_, arg), is_free ? " in enclosing scope" : ""));
  }
  const Source* source = capture_.source_of(cell);
  if (source && (!capture_.journal.touched(cell) || capture_.journal.original(cell) == value)) {
    push(capture_.admit_value(value, capture_.sources.step(source, AccessKind::CellContents)));
  } else {
    push(capture_.adopt(PyRef::borrow(value)));
  }
}

void FrameInterpreter::store_deref(int arg) {
  if (const Source* at = std::exchange(local_sources_[arg], nullptr)) capture_.admit(locals_[arg].get(), at);
  PyObject* cell = locals_[arg].get();
  capture_.before_write(cell);
  if (const Source* source = capture_.concrete ? nullptr : capture_.source_of(cell)) {
    PyObject* before = capture_.journal.original(cell);
    guard_same(capture_, capture_.sources.step(source, AccessKind::CellContents), before, top().get());
  }
  name_after_variable(capture_, top().get(), code_, arg);
  python::check(PyCell_Set(cell, pop().get()) == 0);
}

void FrameInterpreter::delete_deref(int arg) {
  load_deref(arg);
  pop();
  capture_.before_write(locals_[arg].get());
  python::check(PyCell_Set(locals_[arg].get(), nullptr) == 0);
}

void FrameInterpreter::push_attribute(PyObject* name) {
  PyRef object = pop();
  push(load_attribute(capture_, object.get(), name));
}

void FrameInterpreter::push_method(PyObject* name) {
  PyRef object = pop();
  bool takes_self = false;
  PyRef found = load_method(capture_, object.get(), name, takes_self);
  if (!takes_self) {
    push({});
    push(std::move(found));
    return;
  }
  push(std::move(found));
  push(std::move(object));
}

void FrameInterpreter::store_attr(int arg) {
  PyRef object = pop(), value = pop();
  store_attribute(capture_, object.get(), name(arg), value.get());
}

void FrameInterpreter::delete_attr(int arg) {
  PyRef object = pop();
  store_attribute(capture_, object.get(), name(arg), nullptr);
}

namespace {

// The full name of what `from .a import b` imports.
PyRef absolute_name(PyObject* name, PyObject* globals, int level) {
  if (level == 0) return PyRef::borrow(name);
  std::string package(python::text_of(PyDict_GetItemString(globals, "__package__")));
  for (int i = 1; i < level; ++i) package = package.substr(0, package.rfind('.'));
  const std::string own(python::text_of(name));
  return checked(PyUnicode_FromString((own.empty() ? package : package + "." + own).c_str()));
}

}  // namespace

void FrameInterpreter::import_name(int arg) {
  PyRef from = pop(), level = pop();
  PyObject* globals = fs_frame_globals(frame_);
  if (!capture_.concrete) {
    PyRef full = absolute_name(name(arg), globals, static_cast<int>(PyLong_AsLong(level.get())));
    PyObject* loaded = PyDict_GetItemWithError(PyImport_GetModuleDict(), full.get());
    if (!loaded) capture_.stop(BreakReason::Import, std::string(python::text_of(full.get())));
  }
  Suspended suspended(capture_);
  PyRef module = checked(PyImport_ImportModuleLevelObject(name(arg), globals, Py_None, from.get(),
                                                          static_cast<int>(PyLong_AsLong(level.get()))));
  push(capture_.admit(module.get(), capture_.sources.pinned(module.get(), std::string(python::text_of(name(arg))))));
}

void FrameInterpreter::import_from(int arg) {
  PyObject* module = top().get();
  PyRef value = capture_.concrete ? PyRef::steal(PyObject_GetAttr(module, name(arg)))
                                  : find_attribute(capture_, module, name(arg));
  if (!value) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
    PyErr_Clear();
    PyRef package = checked(PyObject_GetAttrString(module, "__name__"));
    PyRef full = checked(PyUnicode_FromFormat("%U.%U", package.get(), name(arg)));
    PyObject* loaded = PyDict_GetItemWithError(PyImport_GetModuleDict(), full.get());
    if (!loaded) {
      raise_python(PyExc_ImportError, fmt::format("cannot import name '{}' from '{}'", python::text_of(name(arg)),
                                                  python::text_of(package.get())));
    }
    value = capture_.admit(loaded, capture_.sources.pinned(loaded, std::string(python::text_of(full.get()))));
  }
  push(std::move(value));
}

}  // namespace firesteel::capture
