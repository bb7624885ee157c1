// Calls that ask for numbers which data gives, and `torch._check` of these.
#include "capture/callables.h"
#include "capture/capture.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

PyRef data_number(Capture& capture, std::string_view method, const CallArgs& args) {
  if (args.values.size() != 1) return {};
  if (method == "item") return capture.data_item(args[0]);
  if (method == "tolist") return capture.data_list(args[0]);
  const bool is_place = method == "__index__";
  if (is_place && python::is_tensor(args[0]) && c10::isFloatingType(python::unpack(args[0]).scalar_type())) return {};
  if (method == "__int__" || is_place)
    return capture.converted_data(reinterpret_cast<PyObject*>(&PyLong_Type), args[0]);
  if (method == "__float__") return capture.converted_data(reinterpret_cast<PyObject*>(&PyFloat_Type), args[0]);
  return {};
}

PyRef call_check(Capture& capture, PyObject* callable, const CallArgs& args) {
  static PyObject* torch = checked(PyImport_ImportModule("torch")).release();
  static PyObject* with = checked(PyObject_GetAttrString(torch, "_check_with")).release();
  static PyObject* is_size = checked(PyObject_GetAttrString(torch, "_check_is_size")).release();
  if (callable == with && args.values.size() == 3 && !args.keyword_count()) {
    const std::optional<Relation> relation = capture.open_relation(args[1]);
    if (!relation) return {};
    if (const std::optional<bool> known = trace_symbols()->known(*relation)) {
      CallArgs plain = args;
      plain.values[1] = PyRef::borrow(*known ? Py_True : Py_False);
      return call(capture, callable, std::move(plain));
    }
    capture.require_data(*relation, args[0], args[2]);
    return PyRef::borrow(Py_None);
  }
  if (callable != is_size || args.values.empty() || !capture.is_data_number(args[0])) return {};
  PyObject *most = nullptr, *message = args.positional() > 1 ? args[1] : nullptr;
  for (size_t i = 0; i < args.keyword_count(); ++i) {
    PyObject* value = args[args.positional() + i];
    (python::text_of(PyTuple_GET_ITEM(args.keywords.get(), i)) == "max" ? most : message) = value;
  }
  auto require = [&](const char* comparison, PyObject* than) {
    PyRef condition = capture.compare_data(operator_function(comparison), args[0], than);
    if (!condition || condition.get() == Py_False) capture.stop(BreakReason::Value, "torch._check_is_size");
    if (const std::optional<Relation> relation = capture.open_relation(condition.get()))
      capture.require_data(*relation, PyExc_RuntimeError, message);
  };
  require("ge", checked(PyLong_FromLong(0)).get());
  if (most && most != Py_None) require("le", most);
  return PyRef::borrow(Py_None);
}

}  // namespace firesteel::capture
