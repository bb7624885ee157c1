// Between torch.Tensor objects and at::Tensor, without the weight of torch's Python headers.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "python/py_ref.h"

namespace firesteel::python {

bool is_tensor(PyObject* object);
// torch.Tensor or nn.Parameter itself, no subclass.
bool is_exact_tensor(PyObject* object);
const at::Tensor& unpack(PyObject* tensor);

// The tensor's own object where it has one, else a new torch.Tensor.
PyRef wrap(const at::Tensor& tensor);
// The same, but a new object is of this class and takes over the attributes of `like` (both may be null).
PyRef wrap_as(const at::Tensor& tensor, PyTypeObject* type, PyObject* like);

// What makes a subclass more than a plain tensor (`__torch_function__`, `__torch_dispatch__`); null where nothing does.
const char* overriding_method(PyTypeObject* type);

// A number as torch hands it to its operators: without a say of its own in what type comes out. Undefined for an int
// that is too large.
at::Tensor number_tensor(PyObject* number);

PyRef wrap_dtype(at::ScalarType dtype);
PyRef wrap_device(const at::Device& device);

// Runs `body` and issues the warnings torch gave meanwhile as Python warnings.
void with_torch_warnings(const std::function<void()>& body);

}  // namespace firesteel::python
