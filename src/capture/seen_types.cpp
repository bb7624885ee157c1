// Texts of tensors are strings, answers that data gives are bools, stand-ins of arrays are arrays, and
// torch.FloatTensor asks for a dtype.
#include "capture/seen_types.h"

#include <string_view>

#include "capture/arrays.h"
#include "capture/tensor_text.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

// The code that follows arrays knows its own class.
bool asks_for_stand_in(const CallArgs& args) { return args.values.size() == 2 && is_array_stand_in_class(args[1]); }

// torch.FloatTensor and its like are no classes: they ask for a dtype and a device, and know no stand-ins.
bool is_tensor_type(PyObject* type) { return std::string_view(Py_TYPE(type)->tp_name) == "torch.tensortype"; }

bool names_tensor_type(PyObject* types) {
  if (!PyTuple_Check(types)) return is_tensor_type(types);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    if (names_tensor_type(PyTuple_GET_ITEM(types, i))) return true;
  }
  return false;
}

bool is_any_of(PyObject* tensor, PyObject* types) {
  if (PyTuple_Check(types)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
      if (is_any_of(tensor, PyTuple_GET_ITEM(types, i))) return true;
    }
    return false;
  }
  if (!is_tensor_type(types)) {
    const int answer = PyObject_IsInstance(tensor, types);
    python::check(answer >= 0);
    return answer == 1;
  }
  for (const char* fact : {"dtype", "layout", "is_cuda"}) {
    PyRef wanted = checked(PyObject_GetAttrString(types, fact)), own = checked(PyObject_GetAttrString(tensor, fact));
    if (wanted.get() != own.get()) return false;
  }
  return true;
}

// What nobody has looked at yet: a comparison of sizes, or what data gives (`torch.SymBool`).
bool is_open_answer(PyObject* value) {
  static PyTypeObject* type = reinterpret_cast<PyTypeObject*>(
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "SymBool")).release());
  return Py_IS_TYPE(value, type);
}

}  // namespace

PyTypeObject* type_the_program_sees(PyObject* value) {
  if (is_tensor_text(value)) return &PyUnicode_Type;
  if (is_open_answer(value)) return &PyBool_Type;
  return is_array_stand_in(value) ? array_type() : Py_TYPE(value);
}

PyRef as_the_program_sees(const PyRef& value, const CallArgs& args) {
  if (is_tensor_text(value.get())) return checked(PyUnicode_New(0, 0));
  if (is_open_answer(value.get())) return PyRef::borrow(Py_False);
  if (!is_array_stand_in(value.get()) || asks_for_stand_in(args)) return value;
  return checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(array_type()), "i", 0));
}

PyRef is_instance_of(PyObject* callable, const CallArgs& args) {
  if (python::is_tensor(args[0]) && names_tensor_type(args[1]))
    return checked(PyBool_FromLong(is_any_of(args[0], args[1])));
  return args.call(callable);
}

bool asks_own_code(Capture& capture, PyObject* asked, PyObject* types) {
  bool own = false;
  if (PyTuple_Check(types)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i)
      own |= asks_own_code(capture, asked, PyTuple_GET_ITEM(types, i));
    return own;
  }
  auto* type = PyType_Check(asked) ? reinterpret_cast<PyTypeObject*>(asked) : Py_TYPE(asked);
  if (is_python_class(type)) {
    PyRef key = interned("__class__");
    PyObject* found = _PyType_Lookup(type, key.get());
    static PyObject* plain = _PyType_Lookup(&PyBaseObject_Type, key.get());
    own = found != plain && !PyType_Check(asked);
    capture.guard_class_attribute(type, key.get(), found);  // sees other bases, too
  }
  for (const char* name : {"__instancecheck__", "__subclasscheck__"}) {
    PyRef key = interned(name);
    PyObject* found = _PyType_Lookup(Py_TYPE(types), key.get());
    if (!found || !PyFunction_Check(found) || is_library(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(found))))
      continue;
    capture.guard_class_attribute(Py_TYPE(types), key.get(), found);
    own = true;
  }
  return own;
}

}  // namespace firesteel::capture
