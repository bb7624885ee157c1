// Attributes of tensors: facts of the stand-in, views, methods, and what somebody set on the object.
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/overridden_calls.h"
#include "capture/seen_types.h"
#include "capture/wrapper_tensors.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

namespace {

// Of a leaf that existed before; others have none, or torch warns.
PyRef gradient(Capture& capture, PyObject* tensor, PyObject* name) {
  PyObject* real = capture.real_of(tensor);
  const Source* source = real ? capture.source_of(real) : nullptr;
  if (!real && !python::unpack(tensor).requires_grad()) return PyRef::borrow(Py_None);
  if (!source || !python::unpack(real).is_leaf())
    capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a {}", python::text_of(name), Py_TYPE(tensor)->tp_name));
  for (const auto& [written, value] : capture.written_gradients) {
    if (written.get() == real) return value;
  }
  PyRef found = PyRef::borrow(guards::follow(AccessKind::Grad, real, nullptr, 0));
  return capture.admit(found.get(), capture.sources.step(source, AccessKind::Grad));
}

// Sizes that change are objects of a Python class: its code is torch's own.
PyRef constant_attribute(Capture& capture, PyObject* tensor, PyObject* name) {
  Suspended suspended(capture);
  return checked(PyObject_GetAttr(tensor, name));
}

// Set by somebody on the tensor object itself.
PyRef own_attribute(Capture& capture, PyObject* tensor, PyObject* name) {
  PyObject* real = capture.real_of(tensor);
  PyObject* dict = guards::instance_dict(real ? real : tensor);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  const Source* source = real ? capture.source_of(real) : nullptr;
  const Source* in = source ? capture.sources.step(source, AccessKind::InstanceDict) : nullptr;
  if (value) return in ? capture.read_key(dict, in, name, value) : capture.adopt(PyRef::borrow(value));
  if (in && dict) capture.guard_absent(dict, in, name);
  if (in && !dict) capture.add_guard({GuardKind::Absent, in, PyRef::borrow(name)});
  return {};
}

// A class of the program's may answer for what is not there.
PyRef fallback_attribute(Capture& capture, PyObject* tensor, PyObject* name) {
  static PyObject* const getattr = interned("__getattr__").release();
  PyObject* found = python::is_exact_tensor(tensor) ? nullptr : _PyType_Lookup(Py_TYPE(tensor), getattr);
  if (!found) return {};
  capture.guard_class_attribute(Py_TYPE(tensor), getattr, found);
  PyRef method = described(capture, tensor, Py_TYPE(tensor), getattr, found);
  if (!method) capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a tensor", python::text_of(name)));
  return call(capture, method.get(), CallArgs{{PyRef::borrow(name)}, {}});
}

}  // namespace

PyRef tensor_attribute(Capture& capture, PyObject* tensor, PyObject* name) {
  const std::string_view text = python::text_of(name);
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  capture.guard_class_attribute(Py_TYPE(tensor), name, found);
  const bool is_of_torch = found && Py_IS_TYPE(found, &PyGetSetDescr_Type);  // a program may put its own there
  if (is_of_torch && is_attribute_overridden(capture, tensor)) return overridden_attribute(capture, tensor, name);
  if (text == "grad" && is_of_torch) return gradient(capture, tensor, name);
  if (text == "__class__") return PyRef::borrow(reinterpret_cast<PyObject*>(type_the_program_sees(tensor)));
  if (text == "is_leaf") return checked(PyBool_FromLong(python::unpack(tensor).is_leaf()));
  if (text == "grad_fn") {
    const at::Tensor& asked = python::unpack(tensor);
    if (!asked.requires_grad() || !asked.grad_fn()) return PyRef::borrow(Py_None);
    capture.stop(BreakReason::Autograd, "`.grad_fn` of a tensor with a history is read");
  }
  switch (is_of_torch ? tensor_attribute_kind(name) : TensorAttribute::Unknown) {
    case TensorAttribute::Constant:
      return capture.adopt_sizes(constant_attribute(capture, tensor, name));
    case TensorAttribute::View: {
      static PyObject* getattr = checked(PyObject_GetAttrString(PyImport_AddModule("builtins"), "getattr")).release();
      return capture.torch_call(getattr, "getattr", checked(PyTuple_Pack(2, tensor, name)));
    }
    case TensorAttribute::Unknown:
      break;
  }
  if (capture.holds_wrappers && !is_of_torch && is_wrapper(tensor)) {
    if (PyRef part = wrapper_part(capture, tensor, name)) return part;
  }
  const bool goes_first = found && Py_TYPE(found)->tp_descr_get && Py_TYPE(found)->tp_descr_set;
  if (!found || (!goes_first && !python::is_exact_tensor(tensor))) {
    if (PyRef own = own_attribute(capture, tensor, name)) return own;
  }
  if (!found) return fallback_attribute(capture, tensor, name);
  const bool is_method = Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type) ||
                         (PyFunction_Check(found) && python::is_exact_tensor(tensor));
  if (is_method) return checked(PyObject_GetAttr(tensor, name));
  if (!Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
    if (PyRef value = described(capture, tensor, Py_TYPE(tensor), name, found)) return value;
  }
  capture.stop(BreakReason::Attribute, fmt::format("`.{}` of a {}", python::text_of(name), Py_TYPE(tensor)->tp_name));
}

}  // namespace firesteel::capture
