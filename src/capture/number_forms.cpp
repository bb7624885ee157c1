// Numbers that change, in places where torch's function takes no tensor: the call is traced in another form
// (python/firesteel/_number_forms.py), and the torch-level graph keeps it as it was written.
#include <ATen/ops/abs.h>
#include <ATen/ops/le.h>

#include "capture/callables.h"
#include "capture/capture.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyObject* forms() {
  static PyObject* table = [] {
    PyRef module = checked(PyImport_ImportModule("firesteel._number_forms"));
    return checked(PyObject_GetAttrString(module.get(), "FORMS")).release();
  }();
  return table;
}

struct Condition {
  const char* comparison;
  double than;
  bool answer;
};
struct Requirement {
  std::string_view name;
  std::vector<Condition> all;
};

// What a form takes for granted of its numbers. torch has formulas of its own for some powers.
const std::vector<Requirement>& requirements() {
  constexpr double kLargest = 3.4028234663852886e38;  // of float32; torch reports what is larger
  static const auto* table = new std::vector<Requirement>{
      {"a share", {{"gt", 0, true}, {"lt", 1, true}}},
      {"a float", {{"le", kLargest, true}, {"ge", -kLargest, true}}},
      {"no special power",
       {{"eq", 0, false},
        {"eq", 0.5, false},
        {"eq", 1, false},
        {"eq", 2, false},
        {"eq", 3, false},
        {"eq", -0.5, false},
        {"eq", -1, false},
        {"eq", -2, false}}},
  };
  return *table;
}

}  // namespace

// True where all that the form asks of the number holds, which is guarded.
bool Capture::meets(PyObject* number, std::string_view requirement) {
  for (const Requirement& row : requirements()) {
    if (row.name != requirement) continue;
    if (is_data_number(number)) {
      PyRef plain = requirement == "a float" && PyFloat_CheckExact(number) ? plain_number(number) : PyRef();
      if (plain) require_of_float(at::le(at::abs(python::unpack(plain.get())), row.all[0].than));
      return static_cast<bool>(plain);
    }
    for (const Condition& condition : row.all) {
      PyRef than = checked(PyFloat_FromDouble(condition.than));
      if (decide(operator_function(condition.comparison), number, than.get()) != condition.answer) return false;
    }
  }
  return true;
}

PyRef Capture::number_form(PyObject* callable, const std::string& name, PyObject* args, PyObject* kwargs) {
  if (!open_numbers_ || (changing_.empty() && !takes_data_numbers)) return {};
  auto changes = [&](PyObject* value) { return is_open_number(value) && numbers_.at(value).changes; };
  bool any = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) any = any || changes(PyTuple_GET_ITEM(args, i));
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (kwargs && PyDict_Next(kwargs, &position, &key, &value)) any = any || changes(value);
  PyObject* row = any ? PyDict_GetItemString(forms(), name.c_str()) : nullptr;
  if (!row) return {};
  const std::string_view requirement = python::text_of(PyTuple_GET_ITEM(row, 1));
  bool holds = true;
  auto replaced = [&](PyObject* given) {
    if (!changes(given)) return substitute(given);
    holds = holds && python::number_tensor(given).defined() && meets(given, requirement);
    return holds ? number_input(given) : PyRef::borrow(given);
  };
  PyRef positional = checked(PyTuple_New(PyTuple_GET_SIZE(args)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args) && holds; ++i)
    PyTuple_SET_ITEM(positional.get(), i, replaced(PyTuple_GET_ITEM(args, i)).release());
  PyRef named = kwargs ? checked(PyDict_New()) : PyRef();
  position = 0;
  while (holds && kwargs && PyDict_Next(kwargs, &position, &key, &value))
    python::check(PyDict_SetItem(named.get(), key, replaced(value).get()) == 0);
  if (!holds) return {};
  settle_deep(positional.get());
  settle_deep(named.get());
  PyRef result;
  {
    Journal::Hidden hidden(journal);
    Suspended suspended(*this);
    result = PyRef::steal(PyObject_Call(PyTuple_GET_ITEM(row, 0), positional.get(), named.get()));
  }
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();  // called as the form does not know
  if (!result && PyErr_Occurred()) python::throw_python_error();
  if (!result || result.get() == Py_NotImplemented) return {};
  record(callable, name, positional.get(), named.get(), result.get());
  return made(std::move(result));
}

}  // namespace firesteel::capture
