// Calls whose Python is not looked into, while their operators are traced: nonstrict functions and allowed ones.
#include <fmt/format.h>

#include "aot/trace.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/class_writes.h"
#include "capture/cpython/frame_shim.h"
#include "capture/leaf_hooks.h"
#include "capture/opaque_state.h"
#include "capture/outside_iterators.h"
#include "capture/overridden_calls.h"
#include "capture/tensor_text.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

using python::Flat;

std::string name_of(PyObject* function) {
  PyRef name = python::attribute(function, "__qualname__");
  if (!name) name = python::attribute(function, "__name__");
  return name ? std::string(python::text_of(name.get())) : python::spell(function);
}

// Taking values apart runs Python that is no business of the capture. Firesteel's own errors and those of registered
// flatten functions reach the user as they are.
template <class F>
auto or_refuse(Capture& capture, F&& run) {
  try {
    Suspended suspended(capture);
    return run();
  } catch (const Break&) {
    throw;
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  capture.refuse_with_python_error();
}

bool is_own_error() {
  static PyObject* own = [] {
    python::ErrorAside aside;
    PyRef module = python::checked(PyImport_ImportModule("firesteel._C"));
    return python::checked(PyObject_GetAttrString(module.get(), "Error")).release();
  }();
  return PyErr_ExceptionMatches(own);
}

bool same_parts(const Flat& a, const Flat& b) {
  if (a.tree != b.tree || a.leaves.size() != b.leaves.size()) return false;
  for (size_t i = 0; i < a.leaves.size(); ++i) {
    if (a.leaves[i].get() != b.leaves[i].get()) return false;
  }
  return true;
}

// Tensors and tuples of tensors: what an allowed function may give.
bool is_tensor_nest(PyObject* value) {
  if (python::is_tensor(value)) return true;
  if (!PyTuple_Check(value)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    if (!is_tensor_nest(PyTuple_GET_ITEM(value, i))) return false;
  }
  return true;
}

// A bound method, a partial or a module is called through the function underneath, so that what it holds is an input.
PyObject* underlying(Capture& capture, PyObject* function, CallArgs& args) {
  auto put_first = [&](PyObject* value) {
    if (!capture.source_of(value) && capture.is_unknown(value))
      capture.admit(value, capture.sources.pinned(value, Py_TYPE(value)->tp_name));
    args.values.insert(args.values.begin(), PyRef::borrow(value));
  };
  for (;;) {
    if (PyMethod_Check(function) && is_nn_module(PyMethod_GET_SELF(function))) {
      put_first(PyMethod_GET_SELF(function));
      function = PyMethod_GET_FUNCTION(function);
    } else if (is_nn_module(function)) {
      put_first(function);
      PyRef call = interned("__call__");
      function = _PyType_Lookup(Py_TYPE(function), call.get());
    } else {
      return function;
    }
  }
}

// An object that the captured code made may hold numbers where they are not found: in what is no part of its structure.
bool holds_made_object(Capture& capture, PyObject* value) {
  if (python::is_tensor(value) || is_guardable_constant(value)) return false;
  if (PyDict_CheckExact(value)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, nullptr, &item)) {
      if (holds_made_object(capture, item)) return true;
    }
    return false;
  }
  if (PyTuple_Check(value) || PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (holds_made_object(capture, PySequence_Fast_GET_ITEM(value, i))) return true;
    }
    return false;
  }
  return capture.is_made(value) && (is_nn_module(value) || python::kind_of(value));
}

// What a refused call gave is none of the capture's: a generator that ends runs its frame once more.
struct LetGo {
  Capture& capture;
  PyRef& result;
  ~LetGo() {
    python::ErrorAside aside;
    Suspended suspended(capture);
    result = PyRef();
  }
};

// A module that the captured code made is made again at each call, of the graph's own tensors.
PyRef with_made_modules(Capture& capture, const PyRef& nested) {
  return or_refuse(capture, [&] {
    return python::map_parts(nested.get(), [&](PyObject* part) {
      if (!is_nn_module(part) || !capture.is_made(part)) return PyRef::borrow(part);
      PyRef known = python::checked(PyList_New(0));
      PyRef modules = python::checked(PyObject_CallMethod(part, "modules", nullptr));
      while (PyRef module = PyRef::steal(PyIter_Next(modules.get()))) {
        if (!capture.is_made(module.get())) python::check(PyList_Append(known.get(), module.get()) == 0);
      }
      python::check(!PyErr_Occurred());
      PyRef maker = python::checked(PyImport_ImportModule("firesteel._made_modules"));
      return python::checked(PyObject_CallMethod(maker.get(), "stand_in", "OO", part, known.get()));
    });
  });
}

// PyTorch takes functions under allow_in_graph() that give nothing: they are called for what they do.
bool is_dropped_in() {
  PyRef name = interned("firesteel.interop.dropin");
  PyRef module = PyRef::steal(PyImport_GetModule(name.get()));
  return module && python::checked(PyObject_CallMethod(module.get(), "is_installed", nullptr)).get() == Py_True;
}

}  // namespace

// Real tensors become stand-ins wherever they lie, in registered classes too; all that is not a tensor is guarded.
PyRef Capture::opaque_argument(PyObject* value, const char* root) {
  stop_at_tensor_text(*this, value);
  PyRef known;
  {
    const KeepSymbols keep(keeps_symbols_), with_floats(keeps_floats_);
    known = substitute(value);
  }
  watch_opaque_input(*this, known.get());
  Flat flat = or_refuse(*this, [&] { return python::flatten_input(known.get(), root); });
  bool replaced = false;
  for (PyRef& leaf : flat.leaves) {
    if (is_stand_in(leaf.get())) continue;
    leaf = adopt(leaf);
    replaced = true;
  }
  // What the captured code has written must be seen also while writes are hidden from other threads: in a copy.
  if (!replaced && journal.empty()) return known;
  size_t next = 0;
  return or_refuse(*this, [&] { return python::unflatten(flat.tree, flat.leaves, next); });
}

// Runs the function on stand-ins, watches what it does besides, and makes one node of it.
PyRef Capture::opaque_call(PyObject* function, const std::string& name, PyRef args, PyRef kwargs, bool any_result,
                           PyObject* traced) {
  const python::OwnSources own_sources;
  if (!trace_symbols()->empty()) keep_numbers();  // it may make floats of sizes that it finds itself
  // Sizes that change are sizes to the function too, and inputs of its node. One that the captured code has stored away
  // would be found as a plain number.
  PyRef recorded_args = args, recorded_kwargs = kwargs;
  if (!journal.empty()) {
    settle_all();
    for (PyRef* side : {&args, &kwargs}) {
      note_truths(side->get(), /*deep=*/true);
      *side = closed(std::move(*side));
    }
    recorded_args = args;
    recorded_kwargs = kwargs;
  } else if (open_numbers_ || holds_symbol(args.get()) || (kwargs && holds_symbol(kwargs.get()))) {
    if (holds_made_object(*this, args.get()) || (kwargs && holds_made_object(*this, kwargs.get())))
      settle_all_but_sizes();
    const KeepSymbols with_floats(keeps_floats_);
    auto with = [&](const PyRef& value, SymbolForm form) {
      return value ? or_refuse(*this, [&] { return with_symbols(value.get(), form); }) : PyRef();
    };
    recorded_args = with(args, SymbolForm::Leaf);
    recorded_kwargs = with(kwargs, SymbolForm::Leaf);
    args = with(args, SymbolForm::SymInt);
    kwargs = with(kwargs, SymbolForm::SymInt);
  }
  const Flat before = or_refuse(*this, [&] { return python::flatten_input(args.get(), "args"); });
  const Flat named_before =
      kwargs ? or_refuse(*this, [&] { return python::flatten_input(kwargs.get(), "kwargs"); }) : Flat();
  ran_opaque_python = true;
  OpaqueState state(function, args.get(), kwargs.get());
  // Writes are hidden from other threads while the function runs, and come after the graph where it runs again.
  const bool sees_writes = !runs_python_again && !fs_has_other_threads(PyThreadState_Get());
  if (const std::string written = sees_writes ? std::string() : state.pending(journal); !written.empty())
    stop(BreakReason::Write, fmt::format("the compiled code {}, which `{}` could read: it", written, name));
  if (!LeafHooks::left(*this).empty())
    stop(BreakReason::Autograd, fmt::format("a hook was left on a tensor, and `{}` could run it", name));
  if (!ClassWrites::left(*this).empty())
    stop(BreakReason::Write, fmt::format("an attribute of a class was set, which `{}` could read: it", name));
  if (!OutsideIterators::steps(*this).empty())
    stop(BreakReason::Iterator, fmt::format("an iterator that `{}` could step as well", name));
  if (!written_gradients.empty())
    stop(BreakReason::Autograd, fmt::format("`.grad` was set, and `{}` could read it", name));
  PyRef result;
  const LetGo let_go{*this, result};
  {
    Journal::Hidden hidden(journal);
    Suspended suspended(*this);
    ConstantCaptures constants;
    result = PyRef::steal(PyObject_Call(traced ? traced : function, args.get(), kwargs.get()));
    for (const at::Tensor& tensor : constants.without_gradient())
      lost_gradients.push_back(describe_captured(function, name, tensor));
  }
  const std::string changed = state.put_back();
  if (!result) {
    if (is_own_error()) refuse_with_python_error();
    if (trace_symbols()->any_data()) {
      PyErr_Clear();
      stop(BreakReason::DataDependent, fmt::format("`{}` fails on sizes that data gives", name));
    }
    python::throw_python_error();
  }
  if (!changed.empty()) {
    refuse("ControlError", fmt::format("`{}` {} while it is traced: a compiled call would not do it again\n"
                                       "  try: return the new value, or do it outside the function",
                                       name, changed));
  }
  auto unchanged = [&](const Flat& then, PyObject* now, const char* root) {
    return same_parts(then, or_refuse(*this, [&] { return python::flatten_input(now, root); }));
  };
  if (!unchanged(before, args.get(), "args") || (kwargs && !unchanged(named_before, kwargs.get(), "kwargs")))
    stop(BreakReason::Mutation, name);
  result = or_refuse(*this, [&] { return adopt_sizes(std::move(result), /*keep_truths=*/true); });
  RecordOptions options;
  options.opaque = true;
  if (any_result) {
    options.flat_result = or_refuse(*this, [&] { return python::flatten_result(result.get(), function); });
  } else if (!is_tensor_nest(result.get()) && !(result.get() == Py_None && is_dropped_in())) {
    refuse(
        "ControlError",
        fmt::format("what `{}` gives is no tensor ({}): a function under allow_in_graph() gives a tensor or a tuple of "
                    "tensors\n  try: nonstrict_trace(), which takes and gives more",
                    name, Py_TYPE(result.get())->tp_name));
  }
  options.always = traced || (!any_result && result.get() == Py_None);  // what gives nothing is called for what it does
  if (runs_python_again) {
    recorded_args = with_made_modules(*this, recorded_args);
    if (recorded_kwargs) recorded_kwargs = with_made_modules(*this, recorded_kwargs);
  }
  record(function, name, recorded_args.get(), recorded_kwargs.get(), result.get(), options);
  return python::is_tensor(result.get()) || is_guardable_constant(result.get()) ? result : made(std::move(result));
}

PyRef Capture::nonstrict_call(PyObject* callable, CallArgs args) {
  PyObject* function = underlying(*this, callable, args);
  refuse_overridden(*this, args, name_of(callable));
  PyRef given = opaque_argument(args.tuple().get(), "args");
  PyRef named = args.dict() ? opaque_argument(args.dict().get(), "kwargs") : PyRef();
  return opaque_call(function, name_of(callable), std::move(given), std::move(named), /*any_result=*/true);
}

PyRef Capture::leaf_call(PyObject* function, PyObject* traced, const CallArgs& args) {
  refuse_overridden(*this, args, name_of(function));
  calls_leaf = true;
  PyRef given = opaque_argument(args.tuple().get(), "args");
  PyRef named = args.dict() ? opaque_argument(args.dict().get(), "kwargs") : PyRef();
  return opaque_call(function, name_of(function), std::move(given), std::move(named), /*any_result=*/true, traced);
}

PyRef Capture::allowed_call(PyObject* function, const CallArgs& args) {
  const std::string name = name_of(function);
  refuse_overridden(*this, args, name);
  PyRef given = substitute(args.tuple().get());
  PyRef named = args.dict() ? substitute(args.dict().get()) : PyRef();
  for (PyObject* side : {given.get(), named.get()}) {
    if (side) refuse_objects(*this, side, name);
  }
  return opaque_call(function, name, std::move(given), std::move(named), /*any_result=*/false);
}

}  // namespace firesteel::capture
