// Hooks in torch's own method tables: the method objects stay what they are, only their C function is ours.
#include "python/traced_tensors.h"

#include <array>
#include <string_view>
#include <utility>

#include <ATen/ops/_local_scalar_dense.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aot/dispatch_keys.h"
#include "aot/trace.h"
#include "python/tensor_objects.h"

namespace firesteel::python {
namespace {

// What happens where the tensor is a traced one.
enum class Action {
  Refuse,       // the method gives out memory
  RefuseValue,  // the method gives out values: refused for real tensors too while the tracer looks on
  RefuseFirst,  // the same for a function's first argument
  Unhide,       // the method asks the dispatcher, maybe where torch.tensor([x, …]) hides the tracer from it
  NewTensor,    // x.new_tensor(data)
  New,          // x.new(data), x.new(2, 3)
};

struct Hook {
  const char* name;
  Action action;
};

constexpr std::array<Hook, 18> kHooks = {{
    {"numpy", Action::RefuseValue},
    {"tolist", Action::RefuseValue},
    {"data_ptr", Action::Refuse},
    {"const_data_ptr", Action::Refuse},
    {"untyped_storage", Action::Refuse},
    {"apply_", Action::Refuse},
    {"map_", Action::Refuse},
    {"map2_", Action::Refuse},
    {"_to_dlpack", Action::RefuseFirst},
    {"_to_dlpack_versioned", Action::RefuseFirst},
    {"item", Action::Unhide},
    {"__bool__", Action::Unhide},
    {"__int__", Action::Unhide},
    {"__float__", Action::Unhide},
    {"__complex__", Action::Unhide},
    {"__index__", Action::Unhide},
    {"new_tensor", Action::NewTensor},
    {"new", Action::New},
}};

std::array<PyCFunction, kHooks.size()> g_originals{};
PyObject* g_plain_str = nullptr;  // torch._tensor_str._str as it was
PyObject* g_torch = nullptr;      // the module

// Shows the dispatcher the tracer again.
class UnhideTracer {
  using Keys = c10::DispatchKeySet;

 public:
  UnhideTracer()
      : guard_(c10::impl::tls_local_dispatch_key_set().included_,
               c10::impl::tls_local_dispatch_key_set().excluded_ -
                   Keys({kEntryKey, kFakeKey, c10::DispatchKey::Functionalize, c10::DispatchKey::Python,
                         c10::DispatchKey::PythonTLSSnapshot})) {}

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
};

// Reading one number is an operator: the tracer sees it, refuses it with the user's line, and remembers that it did, so
// that a function which swallows the error is refused as well.
[[noreturn]] void refuse_read(const at::Tensor& tensor, const char* name) {
  CallName called(name);
  {
    UnhideTracer unhide;
    GilRelease no_gil;
    at::_local_scalar_dense(tensor);
  }
  FS_RAISE(DataDependentError,
           "the traced function reads the memory of a constant it made ({}())\n"
           "  try: make the constant outside the traced function, or read it with item()",
           name);
}

// torch.`factory`(*args, dtype=…, device=…) with what is not given taken from a tensor: the tracer sees factories.
PyObject* make_like(PyObject* self, const char* factory, PyObject* args, PyObject* keywords) {
  PyRef named = keywords ? checked(PyDict_Copy(keywords)) : checked(PyDict_New());
  for (const char* name : {"dtype", "device"}) {
    PyObject* given = PyDict_GetItemString(named.get(), name);
    if (given && given != Py_None) continue;
    check(PyDict_SetItemString(named.get(), name, checked(PyObject_GetAttrString(self, name)).get()) == 0);
  }
  PyRef function = checked(PyObject_GetAttrString(g_torch, factory));
  return checked(PyObject_Call(function.get(), args, named.get())).release();
}

// `x.new` is older than the factories: sizes give a tensor without values, anything else is data.
PyObject* make_new(PyObject* self, PyObject* args, PyObject* keywords) {
  if (PyTuple_GET_SIZE(args) == 0) return make_like(self, "empty", checked(Py_BuildValue("(i)", 0)).get(), keywords);
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  PyRef size_type = checked(PyObject_GetAttrString(g_torch, "Size"));
  const bool sizes = PyLong_Check(first) || reinterpret_cast<PyObject*>(Py_TYPE(first)) == size_type.get();
  return make_like(self, sizes ? "empty" : "tensor", args, keywords);
}

template <size_t I>
PyObject* subject_of(PyObject* self, PyObject* args) {
  if constexpr (kHooks[I].action != Action::RefuseFirst) return self;
  return args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
}

// `original` calls the method as it was.
template <size_t I, class F>
PyObject* on_traced(PyObject* subject, PyObject* args, PyObject* keywords, F&& original) {
  return at_border<PyObject*>(nullptr, [&]() -> PyObject* {
    constexpr Action action = kHooks[I].action;
    if constexpr (action == Action::NewTensor) return make_like(subject, "tensor", args, keywords);
    if constexpr (action == Action::New) return make_new(subject, args, keywords);
    if constexpr (action == Action::Unhide) {
      UnhideTracer unhide;
      return original();
    }
    refuse_read(unpack(subject), kHooks[I].name);
  });
}

// A graph that holds a value read while it was traced would be wrong once the tensor has changed; `item()` on a real
// tensor is refused for the same reason. Kernels that the tracer runs for themselves are hidden from it, and may read.
bool refuses_real() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return is_tracing() && keys.included_.has(kEntryKey) && !keys.excluded_.has(kEntryKey);
}

template <size_t I>
bool concerns_trace(PyObject* subject) {
  if (is_traced_object(subject)) return true;
  constexpr bool value = kHooks[I].action == Action::RefuseValue || kHooks[I].action == Action::RefuseFirst;
  return value && refuses_real() && subject && is_tensor(subject);
}

template <size_t I>
PyObject* with_keywords(PyObject* self, PyObject* args, PyObject* keywords) {
  auto original = [&] {
    auto* function = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(g_originals[I]));
    return function(self, args, keywords);
  };
  PyObject* subject = subject_of<I>(self, args);
  return concerns_trace<I>(subject) ? on_traced<I>(subject, args, keywords, original) : original();
}

template <size_t I>
PyObject* without_keywords(PyObject* self, PyObject* args) {
  auto original = [&] { return g_originals[I](self, args); };
  PyObject* subject = subject_of<I>(self, args);
  return concerns_trace<I>(subject) ? on_traced<I>(subject, args, nullptr, original) : original();
}

PyMethodDef* find_method(const Hook& hook, PyObject* tensor_base, PyObject* torch_c) {
  PyRef found = attribute(hook.action == Action::RefuseFirst ? torch_c : tensor_base, hook.name);
  if (found && Py_IS_TYPE(found.get(), &PyMethodDescr_Type)) {
    return reinterpret_cast<PyMethodDescrObject*>(found.get())->d_method;
  }
  if (found && PyCFunction_Check(found.get())) return reinterpret_cast<PyCFunctionObject*>(found.get())->m_ml;
  return nullptr;
}

template <size_t I>
void hook(PyMethodDef* method) {
  if (!method || g_originals[I] || (method->ml_flags & METH_FASTCALL)) return;
  g_originals[I] = method->ml_meth;
  if (method->ml_flags & METH_KEYWORDS) {
    method->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&with_keywords<I>));
  } else {
    method->ml_meth = &without_keywords<I>;
  }
}

template <size_t... I>
void hook_all(PyObject* tensor_base, PyObject* torch_c, std::index_sequence<I...>) {
  (hook<I>(find_method(kHooks[I], tensor_base, torch_c)), ...);
}

std::string text_of_traced(const at::Tensor& tensor) {
  Type type = Type::tensor(tensor.scalar_type(), tensor.device(), {tensor.sizes().begin(), tensor.sizes().end()},
                           {tensor.strides().begin(), tensor.strides().end()});
  type.requires_grad = tensor.requires_grad();
  return fmt::format("<traced tensor {}{}>", type.str(), is_tracing() ? "" : ", its trace has ended");
}

// torch._tensor_str._str(tensor, *, tensor_contents=None), which every way to print a tensor leads to.
PyObject* show_tensor(PyObject*, PyObject* args, PyObject* keywords) {
  PyObject* subject = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (!is_traced_object(subject)) return PyObject_Call(g_plain_str, args, keywords);
  return at_border<PyObject*>(nullptr, [&] { return new_text(text_of_traced(unpack(subject))).release(); });
}

PyMethodDef g_show_tensor = {"_str", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&show_tensor)),
                             METH_VARARGS | METH_KEYWORDS, "A tensor as text; Firesteel shows traced tensors itself."};

}  // namespace

bool is_traced_object(PyObject* object) {
  if (!object || !THPVariable_Check(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.defined()) return false;
  const bool maybe = tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Functionalize, kFakeKey}));
  return maybe && is_traced_tensor(tensor);
}

void watch_data_reads() {
  if (g_plain_str) return;
  PyRef torch_c = checked(PyImport_ImportModule("torch._C"));
  PyRef tensor_base = checked(PyObject_GetAttrString(torch_c.get(), "TensorBase"));
  PyRef printing = checked(PyImport_ImportModule("torch._tensor_str"));
  PyRef plain_str = checked(PyObject_GetAttrString(printing.get(), "_str"));
  PyRef shown = checked(PyCFunction_New(&g_show_tensor, nullptr));
  g_torch = checked(PyImport_ImportModule("torch")).release();
  hook_all(tensor_base.get(), torch_c.get(), std::make_index_sequence<kHooks.size()>());
  check(PyObject_SetAttrString(printing.get(), "_str", shown.get()) == 0);
  g_plain_str = plain_str.release();
}

}  // namespace firesteel::python
