// The only file but errors.cpp and traced_tensors.cpp that sees torch's Python bindings.
#include "python/tensor_objects.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ScalarOps.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "python/errors.h"

namespace firesteel::python {
namespace {

// A class counts as overriding where it, or a class between it and torch.Tensor, defines the method itself.
bool overrides(PyTypeObject* type, const char* method) {
  PyRef own = attribute(reinterpret_cast<PyObject*>(type), method);
  PyRef plain = attribute(THPVariableClass, method);
  // Class methods are bound anew at each access: compare the functions under them.
  PyRef own_function = attribute(own.get(), "__func__");
  PyRef plain_function = attribute(plain.get(), "__func__");
  return (own_function ? own_function.get() : own.get()) != (plain_function ? plain_function.get() : plain.get());
}

}  // namespace

// By the type alone: isinstance() may run code of the object's class.
bool is_tensor(PyObject* object) {
  return is_exact_tensor(object) || PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool is_exact_tensor(PyObject* object) { return THPVariable_CheckExact(object); }

const at::Tensor& unpack(PyObject* tensor) { return THPVariable_Unpack(tensor); }

PyRef wrap(const at::Tensor& tensor) { return checked(THPVariable_Wrap(tensor)); }

PyRef wrap_as(const at::Tensor& tensor, PyTypeObject* type, PyObject* like) {
  const bool has_object = tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() != nullptr;
  if (!type || has_object) return wrap(tensor);
  PyRef object = checked(THPVariable_Wrap(tensor, type));
  PyRef attributes = like ? attribute(like, "__dict__") : PyRef();
  if (attributes) {
    PyRef own = checked(PyObject_GetAttrString(object.get(), "__dict__"));
    check(PyDict_Update(own.get(), attributes.get()) == 0);
  }
  return object;
}

const char* overriding_method(PyTypeObject* type) {
  // A disabled __torch_function__ (nn.Parameter's way) means "treat me as a plain tensor".
  static PyObject* const disabled = [] {
    PyRef module = checked(PyImport_ImportModule("torch._C"));
    return checked(PyObject_GetAttrString(module.get(), "_disabled_torch_function_impl")).release();
  }();
  const bool asked =
      at::impl::PythonTorchFunctionTLS::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
  PyRef function = attribute(reinterpret_cast<PyObject*>(type), "__torch_function__");
  if (asked && function.get() != disabled && overrides(type, "__torch_function__")) return "__torch_function__";
  if (overrides(type, "__torch_dispatch__")) return "__torch_dispatch__";
  return nullptr;
}

at::Tensor number_tensor(PyObject* number) {
  c10::Scalar value;
  if (PyFloat_Check(number)) {
    value = PyFloat_AS_DOUBLE(number);
  } else if (PyBool_Check(number)) {
    value = number == Py_True;
  } else {
    int overflow = 0;
    const long long whole = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow) return {};
    value = static_cast<int64_t>(whole);
  }
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

PyRef wrap_dtype(at::ScalarType dtype) { return PyRef::borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))); }

PyRef wrap_device(const at::Device& device) { return checked(THPDevice_New(device)); }

void with_torch_warnings(const std::function<void()>& body) {
  torch::PyWarningHandler warnings;
  try {
    body();
  } catch (...) {
    warnings.set_in_exception();
    throw;
  }
}

}  // namespace firesteel::python
