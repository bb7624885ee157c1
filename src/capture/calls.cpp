// Calls: each callable is inlined, becomes a node, follows a builtin's rule, or ends the capture.
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_hook.h"
#include "capture/frame_interpreter.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

constexpr size_t kDeepest = 100;
constexpr int kSpecialCode = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;

std::string name_of(PyObject* callable) {
  PyRef name = python::attribute(callable, "__name__");
  return name ? std::string(python::text_of(name.get())) : fmt::format("{} object", Py_TYPE(callable)->tp_name);
}

// CPython binds the arguments; what defaults it fills in must be those seen now.
void guard_defaults(Capture& capture, PyFunctionObject* function) {
  const Source* source = capture.source_of(reinterpret_cast<PyObject*>(function));
  if (!source) return;
  const Source* defaults = capture.sources.step(source, AccessKind::FunctionDefaults);
  if (function->func_defaults) {
    capture.add_guard({GuardKind::Identity, defaults, PyRef::borrow(function->func_defaults)});
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(function->func_defaults); ++i) {
      capture.admit(PyTuple_GET_ITEM(function->func_defaults, i), capture.sources.item(defaults, i));
    }
  }
  if (function->func_kwdefaults) {
    const Source* named = capture.sources.step(source, AccessKind::FunctionKwDefaults);
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(function->func_kwdefaults, &position, &key, &value))
      capture.admit(value, capture.sources.item(named, key));
  }
}

PyRef inline_function(Capture& capture, PyObject* callable, const CallArgs& args) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (code->co_flags & kSpecialCode) capture.stop(BreakReason::Generator, name_of(callable));
  if (capture.depth >= kDeepest) capture.stop(BreakReason::Depth, std::to_string(kDeepest));
  if (!capture.is_made(callable) && !capture.source_of(callable))
    capture.stop(BreakReason::Origin, fmt::format("`{}`", name_of(callable)));
  guard_defaults(capture, function);

  bool taken = false;
  FrameTaker taker = [&](PyThreadState* state, FsFrame* frame) { return interpret_inlined(capture, state, frame); };
  std::vector<PyObject*> raw(args.values.size() + 1);
  for (size_t i = 0; i < args.values.size(); ++i) raw[i + 1] = args[i];
  PyRef result = PyRef::steal(call_hooked(callable, raw.data() + 1, args.positional() | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                          args.keywords.get(), taker, taken));
  if (capture.broken) {
    PyErr_Clear();
    throw *std::exchange(capture.broken, std::nullopt);
  }
  if (!result) python::throw_python_error();  // wrong arguments, or an interrupt
  if (!taken) capture.stop(BreakReason::Hook, name_of(callable));
  return result;
}

PyRef call_with_self(Capture& capture, PyObject* callable, PyObject* self, CallArgs args) {
  args.values.insert(args.values.begin(), PyRef::borrow(self));
  return call(capture, callable, std::move(args));
}

}  // namespace

PyRef call(Capture& capture, PyObject* callable, CallArgs args) {
  if (const std::string* name = torch_leaf(callable))
    return capture.torch_call(callable, *name, args.tuple(), args.dict());
  if (const char* why = forbidden_leaf(callable)) {
    const bool reads = std::string_view(why).starts_with("reads a tensor's data");
    capture.stop(reads ? BreakReason::DataDependent : BreakReason::CFunction,
                 fmt::format("{}: {}", name_of(callable), why));
  }
  if (BuiltinRule rule = builtin_rule(callable)) return rule(capture, callable, args);
  if (PyFunction_Check(callable)) return inline_function(capture, callable, args);
  if (PyMethod_Check(callable)) {
    return call_with_self(capture, PyMethod_GET_FUNCTION(callable), PyMethod_GET_SELF(callable), std::move(args));
  }
  if (PyObject* function = nonstrict_callable(callable)) return capture.nonstrict_call(function, args);
  if (PyObject* function = compiled_callable(callable)) {
    capture.admit(function, capture.sources.pinned(function, name_of(function)));
    return call(capture, function, std::move(args));
  }
  if (PyRef method = unbound_method(callable)) {
    return call_with_self(capture, method.get(), PyCFunction_GET_SELF(callable), std::move(args));
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
    if (has_container_methods(method->d_common.d_type)) return call_container_method(capture, method, args);
  }
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) &&
      has_container_methods(Py_TYPE(PyCFunction_GET_SELF(callable)))) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    PyRef name = interned(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name);
    PyObject* method = _PyType_Lookup(Py_TYPE(self), name.get());
    if (method && Py_IS_TYPE(method, &PyMethodDescr_Type))
      return call_with_self(capture, method, self, std::move(args));
  }
  if (is_torch_op(callable)) {
    PyRef text = python::checked(PyObject_Str(callable));
    return capture.torch_call(callable, fmt::format("torch.ops.{}", python::text_of(text.get())), args.tuple(),
                              args.dict());
  }
  if (PyExceptionClass_Check(callable)) capture.stop(BreakReason::Exception, fmt::format("a {}", name_of(callable)));
  if (PyType_Check(callable)) capture.stop(BreakReason::Creation, reinterpret_cast<PyTypeObject*>(callable)->tp_name);
  if ((Py_TYPE(callable)->tp_flags & Py_TPFLAGS_HEAPTYPE) && capture.source_of(callable)) {
    PyRef name = interned("__call__");
    PyObject* found = _PyType_Lookup(Py_TYPE(callable), name.get());
    if (found && PyFunction_Check(found)) {
      capture.guard_class_attribute(Py_TYPE(callable), name.get(), found);
      capture.admit(found, capture.sources.pinned(found, fmt::format("{}.__call__", Py_TYPE(callable)->tp_name)));
      return call_with_self(capture, found, callable, std::move(args));
    }
  }
  capture.stop(BreakReason::CFunction, name_of(callable));
}

}  // namespace firesteel::capture
