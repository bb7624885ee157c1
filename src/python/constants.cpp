// Which Python values count as constants, and when two of them are the same.
#include "python/constants.h"

#include <bit>
#include <cmath>
#include <vector>

#include "python/errors.h"

namespace firesteel::python {
namespace {

PyTypeObject* type_in(const char* module_name, const char* name) {
  PyRef module = checked(PyImport_ImportModule(module_name));
  return reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(module.get(), name)).release());
}

// Looked up once and kept: none of these types ever goes away.
struct KnownTypes {
  std::vector<PyTypeObject*> torch;
  PyTypeObject* enumeration;
  PyTypeObject* module;
};

const KnownTypes& known() {
  static const auto* types =
      new KnownTypes{{type_in("torch", "dtype"), type_in("torch", "device"), type_in("torch", "Size"),
                      type_in("torch", "layout"), type_in("torch", "memory_format"), type_in("torch", "qscheme"),
                      type_in("torch", "SymInt"), type_in("torch", "SymFloat"), type_in("torch", "SymBool")},
                     type_in("enum", "Enum"),
                     type_in("torch.nn", "Module")};
  return *types;
}

bool all_constant(PyObject* iterable) {
  PyRef items = checked(PySequence_List(iterable));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    if (!is_plain_constant(PyList_GET_ITEM(items.get(), i))) return false;
  }
  return true;
}

// A slice has no iterator; its three parts are what it consists of.
PyRef slice_parts(PyObject* object) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return checked(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

bool is_torch_constant(PyObject* object) {
  for (PyTypeObject* type : known().torch) {
    if (Py_TYPE(object) == type) return true;
  }
  return false;
}

bool is_plain_constant(PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || PyComplex_Check(object) ||
      PyBytes_Check(object) || PyRange_Check(object) || is_torch_constant(object)) {
    return true;
  }
  if (PySlice_Check(object)) return all_constant(slice_parts(object).get());
  if (PyAnySet_CheckExact(object)) return all_constant(object);
  return PyObject_TypeCheck(object, known().enumeration);
}

bool is_enum_member(PyObject* object) { return PyObject_TypeCheck(object, known().enumeration); }

bool is_of_enum_itself(PyObject* object, PyObject* name) {
  if (text_of(name) != "value" && text_of(name) != "name") return false;
  PyTypeObject* base = known().enumeration;
  return PyObject_TypeCheck(object, base) && _PyType_Lookup(Py_TYPE(object), name) == _PyType_Lookup(base, name);
}

bool is_constant(PyObject* object) {
  return is_plain_constant(object) || PyType_Check(object) || PyObject_TypeCheck(object, known().module);
}

bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b) || PyObject_TypeCheck(a, known().module)) return false;
  if (PyFloat_Check(a)) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (PyComplex_Check(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
  }
  if (PySlice_Check(a)) {
    PyRef x = slice_parts(a), y = slice_parts(b);
    for (Py_ssize_t i = 0; i < 3; ++i) {
      if (!same_constant(PyTuple_GET_ITEM(x.get(), i), PyTuple_GET_ITEM(y.get(), i))) return false;
    }
    return true;
  }
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  check(same >= 0);
  return same == 1;
}

std::string spell(PyObject* object) {
  constexpr size_t kLongest = 80;
  ErrorAside aside;
  PyRef text = PyRef::steal(PyObject_Repr(object));
  if (!text) {
    // repr() serves signals: Ctrl-C is not for us, and must not get lost.
    const bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    PyErr_Clear();
    if (interrupted) PyErr_SetInterrupt();
    return std::string("<") + Py_TYPE(object)->tp_name + ">";
  }
  std::string spelled(text_of(text.get()));
  // The graph's text is UTF-8 and one line an entry; cut at a character's border.
  for (char& c : spelled) {
    if (c == '\n') c = ' ';
  }
  if (spelled.size() > kLongest) {
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(spelled[end]) & 0xC0) == 0x80) --end;
    spelled.resize(end);
    spelled += "…";
  }
  return spelled;
}

namespace {

bool is_spelled_by_c(PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis || PyBool_Check(object) || PyLong_CheckExact(object) ||
      PyFloat_CheckExact(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) ||
      PyBytes_CheckExact(object) || PyFunction_Check(object) || PyCFunction_Check(object) || PyCode_Check(object) ||
      is_torch_constant(object))
    return true;
  if (PyType_Check(object)) return Py_TYPE(object) == &PyType_Type;
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(object, i);
    if (PyTuple_CheckExact(item) || PyList_CheckExact(item) || !is_spelled_by_c(item)) return false;
  }
  return true;
}

}  // namespace

std::string spell_plainly(PyObject* object) {
  if (is_spelled_by_c(object)) return spell(object);
  return std::string("<") + Py_TYPE(object)->tp_name + " object>";
}

PyRef fresh_constant(PyObject* constant) {
  if (PySet_CheckExact(constant)) return checked(PySet_New(constant));
  return PyRef::borrow(constant);
}

}  // namespace firesteel::python
