// Instructions that decide what runs next: jumps, loops, calls, returns.
#include <algorithm>

#include <fmt/format.h>

#include "aot/value_ranges.h"
#include "capture/allowance.h"
#include "capture/callables.h"
#include "capture/cpython/opcodes.h"
#include "capture/exception_table.h"
#include "capture/frame_interpreter.h"
#include "capture/leaf_hooks.h"
#include "capture/outside_iterators.h"
#include "capture/raising_sides.h"
#include "capture/show_inside.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

namespace {

bool is_single_stand_in(const Capture& capture, PyObject* value) {
  if (!python::is_tensor(value) || !capture.is_stand_in(value)) return false;
  const at::Tensor& tensor = python::unpack(value);
  return tensor.dim() == 0 && !known_truth(tensor);
}

void assert_tensor(Capture& capture, PyObject* condition, const PyRef& message) {
  static PyObject* function =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "_assert_async")).release();
  capture.torch_call(function, "torch._assert_async", checked(PyTuple_Pack(2, condition, message.get())));
}

}  // namespace

void FrameInterpreter::jump_forward(int arg) { next_ += arg; }

void FrameInterpreter::jump_backward(int arg) {
  serve_interrupts();
  next_ -= arg;
}

void FrameInterpreter::pop_jump_forward_if_true(int arg) {
  // `assert tensor` in a function of one graph is an operator that fails when it runs.
  const bool may_assert = capture_.whole_stretches > 0 || captured_data().asserts;
  const bool asserts =
      may_assert && instructions_[next_].opcode == LOAD_ASSERTION_ERROR && is_single_stand_in(capture_, top().get());
  const Instruction& message = instructions_[next_ + (asserts ? 1 : 0)];
  if (asserts && message.opcode == RAISE_VARARGS) {
    assert_tensor(capture_, pop().get(), checked(PyUnicode_FromString("assertion error")));
    return jump_if(true, arg);
  }
  PyObject* text = asserts && message.opcode == LOAD_CONST ? PyTuple_GET_ITEM(code_->co_consts, message.arg) : nullptr;
  if (text && PyUnicode_CheckExact(text)) {
    assert_tensor(capture_, pop().get(), PyRef::borrow(text));
    return jump_if(true, arg);
  }
  pop_jump_if(true, arg);
}
void FrameInterpreter::pop_jump_forward_if_false(int arg) { pop_jump_if(false, arg); }

void FrameInterpreter::pop_jump_if(bool truth, int delta) {
  const PyRef value = pop();
  const std::optional<bool> side =
      side_that_goes_on(value.get(), next_ + (truth ? delta : 0), next_ + (truth ? 0 : delta));
  jump_if((side ? *side : is_true(capture_, value.get())) == truth, delta);
}

std::optional<bool> FrameInterpreter::side_that_goes_on(PyObject* value, int if_true, int if_false) {
  // Torch's own code looks at what it is given, as torch.distributions do.
  if (capture_.concrete || (!capture_.whole_stretches && !is_of_torch(code_))) return {};
  if (!is_single_stand_in(capture_, value)) return {};
  const bool raises = only_raises(bytes_.get(), if_true);
  if (raises == only_raises(bytes_.get(), if_false) || is_caught_within(state_, static_cast<int>(capture_.depth)))
    return {};
  PyRef condition = PyRef::borrow(value);
  if (raises) {
    static PyObject* negation =
        checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "logical_not")).release();
    condition = capture_.torch_call(negation, "torch.logical_not", checked(PyTuple_Pack(1, value)));
  }
  PyRef text = checked(PyUnicode_FromFormat("%U:%d raises an error for this data", code_->co_filename,
                                            PyCode_Addr2Line(code_, current_ * 2)));
  assert_tensor(capture_, condition.get(), text);
  return !raises;
}
void FrameInterpreter::pop_jump_forward_if_none(int arg) { jump_if(pop().get() == Py_None, arg); }
void FrameInterpreter::pop_jump_forward_if_not_none(int arg) { jump_if(pop().get() != Py_None, arg); }

void FrameInterpreter::get_iter(int) {
  PyRef value = pop();
  push(get_iterator(capture_, value.get()));
}

void FrameInterpreter::for_iter(int arg) {
  PyObject* iterator = top().get();
  if (!capture_.concrete && !capture_.is_made(iterator) && !OutsideIterators::is_twin(iterator))
    stop_at_iterator(capture_, iterator);
  PyRef item = next_of(capture_, iterator);
  if (item) {
    push(std::move(item));
    return;
  }
  pop();
  next_ += arg + kForIterSkips;
}

void FrameInterpreter::kw_names(int arg) { keywords_ = PyRef::borrow(PyTuple_GET_ITEM(code_->co_consts, arg)); }

namespace {

void close_arguments(Capture& capture, PyObject* callable, CallArgs& args) {
  auto holds = [&](const PyRef& value) { return capture.holds_truth(value.get()); };
  if (std::none_of(args.values.begin(), args.values.end(), holds) || hands_truths_on(callable)) return;
  for (PyRef& value : args.values) value = capture.closed(std::move(value));
}

// locals(), and vars() without an object.
bool shows_locals(PyObject* callable) {
  static const auto* both = [] {
    PyRef builtins = checked(PyImport_ImportModule("builtins"));
    return new std::pair<PyRef, PyRef>(checked(PyObject_GetAttrString(builtins.get(), "locals")),
                                       checked(PyObject_GetAttrString(builtins.get(), "vars")));
  }();
  return callable == both->first.get() || callable == both->second.get();
}

}  // namespace

void FrameInterpreter::plain_call(int arg) {
  CallArgs args;
  args.keywords = std::exchange(keywords_, {});
  args.values = pop_many_open(arg);
  PyRef callable = pop();
  // Under it a method found by LOAD_METHOD, whose `self` stands in the callable's place; or nothing.
  if (PyRef method = pop()) {
    args.values.insert(args.values.begin(), std::move(callable));
    callable = std::move(method);
  }
  close_arguments(capture_, callable.get(), args);
  if (callable.get() == reinterpret_cast<PyObject*>(&PySuper_Type) && args.values.empty()) {
    push(make_super());
    return;
  }
  if (args.values.empty() && shows_locals(callable.get()) && may_make_locals()) {
    push(make_locals());
    return;
  }
  if (!args.values.empty() && shows_inside(callable.get())) {
    push(show_inside(args[0]));
    return;
  }
  capture_.tail = role_ != FrameRole::Passing && !is_in_try(code_, bytes_.get(), current_);
  const LeafHooks::Result result(instructions_[next_].opcode == POP_TOP ? callable.get() : nullptr);
  push(call(capture_, callable.get(), std::move(args)));
}

// `super()` looks at the frame for its class and its object: a method's first parameter and the cell the compiler adds.
PyRef FrameInterpreter::make_super() {
  if (code_->co_argcount == 0) raise_python(PyExc_RuntimeError, "super(): no arguments");
  if (!locals_[0]) raise_python(PyExc_RuntimeError, "super(): arg[0] deleted");
  for (int i = code_->co_nlocalsplus - code_->co_nfreevars; i < code_->co_nlocalsplus; ++i) {
    if (python::text_of(PyTuple_GET_ITEM(code_->co_localsplusnames, i)) != "__class__") continue;
    if (!locals_[i] || !PyCell_Check(locals_[i].get())) break;
    if (!PyCell_GET(locals_[i].get())) raise_python(PyExc_RuntimeError, "super(): empty __class__ cell");
    load_deref(i);
    PyRef type = pop();
    // A parameter that an inner function uses lives in a cell.
    if (PyCell_Check(locals_[0].get())) {
      if (!PyCell_GET(locals_[0].get())) raise_python(PyExc_RuntimeError, "super(): arg[0] deleted");
      load_deref(0);
    } else {
      load_fast(0);
    }
    PyRef self = pop();
    PyRef made = checked(
        PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), type.get(), self.get(), nullptr));
    return capture_.made(std::move(made));
  }
  raise_python(PyExc_RuntimeError, "super(): __class__ cell not found");
}

bool FrameInterpreter::may_make_locals() const {
  const bool is_function = (code_->co_flags & CO_OPTIMIZED) && (code_->co_flags & CO_NEWLOCALS);
  const bool yields = code_->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
  return !capture_.concrete && capture_.whole_stretches > 0 && is_function && !yields;
}

PyRef FrameInterpreter::make_locals() {
  PyRef found = variables();
  if (!given_locals_) return given_locals_ = capture_.made(std::move(found));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code_->co_localsplusnames); ++i) {
    PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
    if (PyObject* value = PyDict_GetItemWithError(found.get(), name))
      python::check(PyDict_SetItem(given_locals_.get(), name, value) == 0);
    else if (PyDict_GetItemWithError(given_locals_.get(), name))
      python::check(PyDict_DelItem(given_locals_.get(), name) == 0);
  }
  return given_locals_;
}

PyRef FrameInterpreter::variables() {
  // As CPython marks them: variables of comprehensions that 3.12 has put into the function, those that live in cells.
  constexpr unsigned char kHidden = 0x10, kInCell = 0x40 | 0x80;
  const char* kinds = PyBytes_AS_STRING(code_->co_localspluskinds);
  PyRef made = checked(PyDict_New());
  for (int i = 0; i < code_->co_nlocalsplus; ++i) {
    PyObject* held = locals_[i].get();
    const bool in_cell = held && (kinds[i] & kInCell) && PyCell_Check(held);
    if (!held || (kinds[i] & kHidden) || (in_cell && !PyCell_GET(held))) continue;
    in_cell ? load_deref(i) : load_fast(i);
    python::check(PyDict_SetItem(made.get(), PyTuple_GET_ITEM(code_->co_localsplusnames, i), pop().get()) == 0);
  }
  return made;
}

void FrameInterpreter::call_function_ex(int arg) {
  PyRef keywords = arg & 1 ? pop() : PyRef();
  PyRef positional = pop_open();
  PyRef callable = pop();
  pop();  // the place of a method's self
  CallArgs args;
  if (!Py_TYPE(positional.get())->tp_iter && !PySequence_Check(positional.get())) {
    PyRef spelled = checked(_PyObject_FunctionStr(callable.get()));
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", spelled.get(),
                 Py_TYPE(positional.get())->tp_name);
    python::throw_python_error();
  }
  if (capture_.concrete) {
    PyRef tuple = PyTuple_CheckExact(positional.get()) ? positional : checked(PySequence_Tuple(positional.get()));
    PyRef named = keywords && !PyDict_CheckExact(keywords.get()) ? checked(PyDict_New()) : keywords;
    if (named.get() != keywords.get()) python::check(PyDict_Update(named.get(), keywords.get()) == 0);
    push(call_spread(capture_, callable.get(), tuple.get(), named.get()));
    return;
  }
  if (capture_.holds_truth(positional.get()) && !hands_truths_on(callable.get()))
    positional = capture_.closed(std::move(positional));
  PyRef items = unpacked(positional.get());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
    args.values.push_back(PyRef::borrow(PyList_GET_ITEM(items.get(), i)));
  if (keywords) {
    if (!PyDict_Check(keywords.get()))
      capture_.stop(BreakReason::Value, fmt::format("`**` of a {}", Py_TYPE(keywords.get())->tp_name));
    capture_.consult(keywords.get());
    args.keywords = checked(PySequence_Tuple(keywords.get()));
    Py_ssize_t position = 0;
    PyObject* value = nullptr;
    while (PyDict_Next(keywords.get(), &position, nullptr, &value))
      args.values.push_back(capture_.adopt(PyRef::borrow(value)));
    if (PyTuple_GET_SIZE(args.keywords.get()) == 0) args.keywords = {};
  }
  capture_.tail = role_ != FrameRole::Passing && !is_in_try(code_, bytes_.get(), current_);
  push(call(capture_, callable.get(), std::move(args)));
}

void FrameInterpreter::make_function(int arg) {
  PyRef code = pop();
  PyRef made = checked(PyFunction_New(code.get(), fs_frame_globals(frame_)));
  auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
  // A new function has none of these. They may have been made by an earlier piece of the function, and nobody looks at
  // them again by a path of its own.
  auto part = [this] {
    PyRef value = pop();
    capture_.consult(value.get());
    return value.release();
  };
  if (arg & 8) function->func_closure = part();
  if (arg & 4) function->func_annotations = part();
  if (arg & 2) function->func_kwdefaults = part();
  if (arg & 1) function->func_defaults = part();
  push(capture_.made(std::move(made)));
}

void FrameInterpreter::return_value(int) {
  result_ = pop_open();
  now_ = State::Returned;
}

}  // namespace firesteel::capture
