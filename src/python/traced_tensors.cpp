// Hooks in torch's own method tables: the method objects stay what they are, only their C function is ours.
#include "python/traced_tensors.h"

#include <array>
#include <utility>

#include <ATen/ops/_local_scalar_dense.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aot/dispatch_keys.h"
#include "aot/trace.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::python {
namespace {

// Where the tensor stands in the call: a method's self, or a function's first argument.
enum class Subject { Self, FirstArgument };

struct Reader {
  const char* name;
  Subject subject;
};

constexpr std::array<Reader, 11> kReaders = {{
    {"numpy", Subject::Self},
    {"tolist", Subject::Self},
    {"data_ptr", Subject::Self},
    {"const_data_ptr", Subject::Self},
    {"untyped_storage", Subject::Self},
    {"apply_", Subject::Self},
    {"map_", Subject::Self},
    {"map2_", Subject::Self},
    {"new_tensor", Subject::Self},
    {"_to_dlpack", Subject::FirstArgument},
    {"_to_dlpack_versioned", Subject::FirstArgument},
}};

std::array<PyCFunction, kReaders.size()> g_originals{};
PyObject* g_plain_str = nullptr;     // torch._tensor_str._str as it was
PyObject* g_tensor_factory = nullptr;  // torch.tensor

bool is_traced(PyObject* object) {
  if (!object || !THPVariable_Check(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool maybe = tensor.defined() && tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Functionalize, kFakeKey}));
  return maybe && is_traced_tensor(tensor);
}

// Reading one number is an operator: the tracer sees it, refuses it with the user's line, and remembers that it did, so
// that a function which swallows the error is refused as well.
[[noreturn]] void refuse_read(const at::Tensor& tensor, const char* reader) {
  {
    GilRelease no_gil;
    at::_local_scalar_dense(tensor);
  }
  FS_RAISE(DataDependentError,
           "the traced function reads the memory of a constant it made ({})\n"
           "  try: make the constant outside the traced function, or read it with .item()",
           reader);
}

// `x.new_tensor(data)` is torch.tensor with x's dtype and device, which the tracer sees.
PyObject* new_tensor(PyObject* self, PyObject* args, PyObject* keywords) {
  PyRef named = keywords ? checked(PyDict_Copy(keywords)) : checked(PyDict_New());
  for (const char* name : {"dtype", "device"}) {
    PyObject* given = PyDict_GetItemString(named.get(), name);
    if (given && given != Py_None) continue;
    check(PyDict_SetItemString(named.get(), name, checked(PyObject_GetAttrString(self, name)).get()) == 0);
  }
  return checked(PyObject_Call(g_tensor_factory, args, named.get())).release();
}

// Runs a C++ body at the border to Python.
template <class F>
PyObject* guarded(F&& body) {
  try {
    return body();
  } catch (...) {
    try {
      set_python_error(std::current_exception());
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
  }
}

template <size_t I>
PyObject* refuse_or_replace(PyObject* subject, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    if constexpr (std::string_view(kReaders[I].name) == "new_tensor") return new_tensor(subject, args, keywords);
    refuse_read(THPVariable_Unpack(subject), kReaders[I].name);
  });
}

template <size_t I>
PyObject* subject_of(PyObject* self, PyObject* args) {
  if constexpr (kReaders[I].subject == Subject::Self) return self;
  return args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
}

template <size_t I>
PyObject* with_keywords(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* subject = subject_of<I>(self, args);
  if (is_traced(subject)) return refuse_or_replace<I>(subject, args, keywords);
  return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(g_originals[I]))(self, args, keywords);
}

template <size_t I>
PyObject* without_keywords(PyObject* self, PyObject* args) {
  PyObject* subject = subject_of<I>(self, args);
  if (is_traced(subject)) return refuse_or_replace<I>(subject, args, nullptr);
  return g_originals[I](self, args);
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

PyMethodDef* find_method(const Reader& reader, PyObject* tensor_base, PyObject* torch_c) {
  PyRef found = attribute(reader.subject == Subject::Self ? tensor_base : torch_c, reader.name);
  if (found && Py_IS_TYPE(found.get(), &PyMethodDescr_Type)) {
    return reinterpret_cast<PyMethodDescrObject*>(found.get())->d_method;
  }
  if (found && PyCFunction_Check(found.get())) return reinterpret_cast<PyCFunctionObject*>(found.get())->m_ml;
  return nullptr;
}

template <size_t... I>
void hook_all(PyObject* tensor_base, PyObject* torch_c, std::index_sequence<I...>) {
  (hook<I>(find_method(kReaders[I], tensor_base, torch_c)), ...);
}

std::string text_of_traced(const at::Tensor& tensor) {
  Type type = Type::tensor(tensor.scalar_type(), tensor.device(), {tensor.sizes().begin(), tensor.sizes().end()},
                           {tensor.strides().begin(), tensor.strides().end()});
  type.requires_grad = tensor.requires_grad();
  return fmt::format("<traced tensor {}{}>", type.str(), is_tracing() ? "" : ", its trace has ended");
}

PyObject* show_tensor(PyObject*, PyObject* args, PyObject* keywords) {
  PyObject* subject = subject_of<kReaders.size() - 1>(nullptr, args);
  if (!is_traced(subject)) return PyObject_Call(g_plain_str, args, keywords);
  return guarded([&] { return new_text(text_of_traced(THPVariable_Unpack(subject))).release(); });
}

PyMethodDef g_show_tensor = {"_str", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&show_tensor)),
                             METH_VARARGS | METH_KEYWORDS, "A tensor as text; Firesteel shows traced tensors itself."};

}  // namespace

void watch_data_reads() {
  if (g_plain_str) return;
  PyRef torch_c = checked(PyImport_ImportModule("torch._C"));
  PyRef tensor_base = checked(PyObject_GetAttrString(torch_c.get(), "TensorBase"));
  PyRef torch = checked(PyImport_ImportModule("torch"));
  PyRef printing = checked(PyImport_ImportModule("torch._tensor_str"));
  PyRef plain_str = checked(PyObject_GetAttrString(printing.get(), "_str"));
  PyRef shown = checked(PyCFunction_New(&g_show_tensor, nullptr));
  g_tensor_factory = checked(PyObject_GetAttrString(torch.get(), "tensor")).release();
  hook_all(tensor_base.get(), torch_c.get(), std::make_index_sequence<kReaders.size()>());
  check(PyObject_SetAttrString(printing.get(), "_str", shown.get()) == 0);
  g_plain_str = plain_str.release();
}

}  // namespace firesteel::python
