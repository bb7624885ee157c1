// Which of torch's functions become one node: those torch itself lists as overridable, and the factories.
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "capture/callable_objects.h"
#include "capture/callables.h"
#include "capture/python_forms.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr auto kFactories = std::to_array<const char*>(
    {"arange", "as_tensor", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "rand", "randint",
     "randn", "randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros"});

// Methods that torch does not list as overridable: what a tensor is, and new tensors like it.
constexpr auto kMethods =
    std::to_array<const char*>({"stride", "is_contiguous", "element_size", "numel", "nelement", "dim", "ndimension",
                                "get_device", "size", "new_zeros", "new_ones", "new_empty", "new_full",
                                "new_empty_strided", "new_tensor", "as_strided", "zero_", "fill_", "unflatten"});

// Methods that read data, reach behind the dispatcher, or leave something behind on a tensor.
constexpr auto kForbidden = std::to_array<ForbiddenLeaf>({
    {"item", "reads a tensor's data", BreakReason::DataDependent},
    {"tolist", "reads a tensor's data", BreakReason::DataDependent},
    {"numpy", "reads a tensor's data", BreakReason::DataDependent},
    {"__array__", "reads a tensor's data", BreakReason::DataDependent},
    {"__bool__", "reads a tensor's data", BreakReason::DataDependent},
    {"__int__", "reads a tensor's data", BreakReason::DataDependent},
    {"__float__", "reads a tensor's data", BreakReason::DataDependent},
    {"__index__", "reads a tensor's data", BreakReason::DataDependent},
    {"__complex__", "reads a tensor's data", BreakReason::DataDependent},
    {"__contains__", "reads a tensor's data", BreakReason::DataDependent},
    {"__repr__", "reads a tensor's data", BreakReason::DataDependent},
    {"__format__", "reads a tensor's data", BreakReason::DataDependent},
    {"is_conj", "asks for what a stand-in does not have", BreakReason::CFunction},
    {"is_neg", "asks for what a stand-in does not have", BreakReason::CFunction},
    {"data_ptr", "reads a tensor's address", BreakReason::CFunction},
    {"is_set_to", "reaches a tensor's memory", BreakReason::CFunction},
    {"storage", "reaches a tensor's memory", BreakReason::CFunction},
    {"untyped_storage", "reaches a tensor's memory", BreakReason::CFunction},
    {"storage_offset", "reaches a tensor's memory", BreakReason::CFunction},
    {"__dlpack__", "reaches a tensor's memory", BreakReason::CFunction},
    {"__deepcopy__", "copies a tensor with its history", BreakReason::CFunction},
    {"__reduce_ex__", "pickles a tensor", BreakReason::CFunction},
    {"__setstate__", "pickles a tensor", BreakReason::CFunction},
    {"backward", "runs autograd's engine", BreakReason::Autograd},
    {"register_hook", "leaves a hook on a tensor", BreakReason::Autograd},
    {"register_post_accumulate_grad_hook", "leaves a hook on a tensor", BreakReason::Autograd},
    {"retain_grad", "leaves a mark on a tensor", BreakReason::Autograd},
    {"requires_grad_", "changes a tensor's place in autograd", BreakReason::Autograd},
    {"detach_", "changes a tensor's place in autograd", BreakReason::Autograd},
    {"set_", "gives a tensor other memory", BreakReason::CFunction},
    {"resize_", "gives a tensor other memory", BreakReason::CFunction},
    {"resize_as_", "gives a tensor other memory", BreakReason::CFunction},
    {"share_memory_", "moves a tensor's memory", BreakReason::CFunction},
    {"pin_memory", "moves a tensor's memory", BreakReason::CFunction},
    {"apply_", "runs Python on a tensor's data", BreakReason::CFunction},
    {"map_", "runs Python on a tensor's data", BreakReason::CFunction},
    {"map2_", "runs Python on a tensor's data", BreakReason::CFunction},
    {"new", "makes a tensor of unknown content", BreakReason::CFunction},
    {"from_numpy", "reaches an array's memory", BreakReason::CFunction},
    {"frombuffer", "reaches a buffer's memory", BreakReason::CFunction},
    {"from_file", "reads a file", BreakReason::CFunction},
});

constexpr auto kConstantAttributes = std::to_array<std::string_view>(
    {"shape",     "dtype",     "device",  "ndim",      "requires_grad", "layout",       "is_cuda",
     "is_cpu",    "itemsize",  "nbytes",  "is_sparse", "is_sparse_csr", "is_quantized", "is_nested",
     "is_mkldnn", "is_mps",    "is_xpu",  "is_xla",    "is_ipu",        "is_hpu",       "is_mtia",
     "is_maia",   "is_vulkan", "is_meta", "names"});
constexpr auto kViewAttributes = std::to_array<std::string_view>({"T", "mT", "H", "mH", "real", "imag", "data"});

struct Leaves {
  std::unordered_map<PyObject*, std::string> names;
  std::unordered_map<PyObject*, const ForbiddenLeaf*> forbidden;
  std::vector<PyRef> held;
  PyTypeObject *op_overload, *op_packet;
  PyObject *nn_functions, *variable_functions;  // torch._C._nn, and the class that holds torch's own functions
  PyObject* operators;

  Leaves() {
    PyRef torch = checked(PyImport_ImportModule("torch"));
    PyRef overrides = checked(PyImport_ImportModule("torch.overrides"));
    PyRef table = checked(PyObject_CallMethod(overrides.get(), "get_testing_overrides", nullptr));
    PyRef resolve = checked(PyObject_GetAttrString(overrides.get(), "resolve_name"));
    Py_ssize_t position = 0;
    PyObject* function = nullptr;
    while (PyDict_Next(table.get(), &position, &function, nullptr)) {
      PyRef name = PyRef::steal(PyObject_CallOneArg(resolve.get(), function));
      if (!name) PyErr_Clear();
      add(function, std::string(python::text_of(name.get())));
    }
    for (const char* name : kFactories) {
      if (PyRef factory = python::attribute(torch.get(), name)) add(factory.get(), fmt::format("torch.{}", name));
    }
    PyRef fft = checked(PyImport_ImportModule("torch.fft"));
    for (const char* name : {"fftfreq", "rfftfreq"})
      add(checked(PyObject_GetAttrString(fft.get(), name)).get(), fmt::format("torch.fft.{}", name));
    PyRef tensor_class = checked(PyObject_GetAttrString(torch.get(), "Tensor"));
    for (const char* name : kMethods) {
      if (PyRef method = python::attribute(tensor_class.get(), name))
        add(method.get(), fmt::format("torch.Tensor.{}", name));
    }
    PyRef ops = checked(PyImport_ImportModule("torch._ops"));
    op_overload = reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(ops.get(), "OpOverload")).release());
    op_packet =
        reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(ops.get(), "OpOverloadPacket")).release());
    PyRef torch_c = checked(PyImport_ImportModule("torch._C"));
    nn_functions = checked(PyObject_GetAttrString(torch_c.get(), "_nn")).release();
    variable_functions = checked(PyObject_GetAttrString(torch_c.get(), "_VariableFunctionsClass")).release();
    // All of torch's own functions in C, also those that cannot be overridden.
    PyRef all = checked(PyObject_Dir(variable_functions));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject* name = PyList_GET_ITEM(all.get(), i);
      PyRef found = python::attribute(variable_functions, PyUnicode_AsUTF8(name));
      if (!found || !PyCFunction_Check(found.get()) || python::text_of(name).starts_with("__")) continue;
      if (!names.count(found.get()) && !forbidden.count(found.get())) add(found.get(), {});
    }
    operators = checked(PyImport_ImportModule("operator")).release();
  }

  // C functions of torch are made anew at each access through their class: known by what they are bound to.
  void learn(PyObject* callable) {
    if (!PyCFunction_Check(callable) || names.count(callable) || forbidden.count(callable)) return;
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self == nn_functions)
      add(callable, fmt::format("torch._C._nn.{}", reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
    if (self == variable_functions) add(callable, {});
  }

  void add(PyObject* function, std::string name) {
    PyRef own = python::attribute(function, "__name__");
    const std::string_view own_name = python::text_of(own.get());
    if (name.empty()) name = "torch." + std::string(own_name);
    held.push_back(PyRef::borrow(function));
    for (const ForbiddenLeaf& row : kForbidden) {
      if (own_name == row.name) {
        forbidden[function] = &row;
        return;
      }
    }
    names.emplace(function, std::move(name));
  }
};

Leaves& leaves() {
  static auto* table = new Leaves;  // holds Python objects: never destroyed
  return *table;
}

}  // namespace

void prepare_tables() {
  static std::atomic<bool> done = false;
  if (done) return;
  static auto* mutex = new std::mutex;
  std::unique_lock<std::mutex> lock(*mutex, std::defer_lock);
  {
    // Making the tables runs Python, which may pass the GIL on: who waits here must not keep it.
    python::GilRelease no_gil;
    lock.lock();
  }
  if (done) return;
  leaves();
  builtin_rule(Py_None);
  python_form(Py_None);
  prepare_callable_objects();
  module_getattr();
  is_nn_module(Py_None);
  is_python_class(Py_TYPE(module_getattr()));
  checked(PyImport_ImportModule("firesteel._number_forms"));
  done = true;
}

const std::string* torch_leaf(PyObject* callable) {
  leaves().learn(callable);
  auto found = leaves().names.find(callable);
  return found == leaves().names.end() ? nullptr : &found->second;
}

const ForbiddenLeaf* forbidden_leaf(PyObject* callable) {
  auto found = leaves().forbidden.find(callable);
  return found == leaves().forbidden.end() ? nullptr : found->second;
}

PyRef unbound_method(PyObject* bound) {
  if (!PyCFunction_Check(bound)) return {};
  PyObject* self = PyCFunction_GET_SELF(bound);
  if (!self || !python::is_tensor(self)) return {};
  PyRef name = interned(reinterpret_cast<PyCFunctionObject*>(bound)->m_ml->ml_name);
  return PyRef::borrow(_PyType_Lookup(Py_TYPE(self), name.get()));
}

bool is_torch_op(PyObject* object) {
  return Py_TYPE(object) == leaves().op_overload || Py_TYPE(object) == leaves().op_packet;
}

PyObject* operator_function(const char* name) {
  static auto* known = new std::unordered_map<std::string_view, PyObject*>;
  PyObject*& function = (*known)[name];
  if (!function) function = checked(PyObject_GetAttrString(leaves().operators, name)).release();
  return function;
}

TensorAttribute tensor_attribute_kind(PyObject* name) {
  const std::string_view text = python::text_of(name);
  auto in = [&](const auto& names) { return std::find(names.begin(), names.end(), text) != names.end(); };
  if (in(kConstantAttributes)) return TensorAttribute::Constant;
  return in(kViewAttributes) ? TensorAttribute::View : TensorAttribute::Unknown;
}

namespace {

PyTypeObject* module_type() {
  static auto* type = reinterpret_cast<PyTypeObject*>(
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch.nn")).get(), "Module")).release());
  return type;
}

}  // namespace

bool is_nn_module(PyObject* object) { return PyObject_TypeCheck(object, module_type()); }

bool is_nn_module_class(PyObject* object) {
  return PyType_Check(object) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), module_type());
}

PyObject* module_getattr() {
  static PyObject* function =
      checked(PyObject_GetAttrString(
                  checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch.nn")).get(), "Module")).get(),
                  "__getattr__"))
          .release();
  return function;
}

}  // namespace firesteel::capture
