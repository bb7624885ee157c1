// Functions of floats that data gives, ints that are made of them, and comparisons: nodes of the torch-level graph, and
// operators of the trace.
//
// What Python has an error for (the root of a negative number, the int of one that is none) is a condition of the
// trace, as those on sizes are: a call for which it does not hold runs as it is.
#include <cmath>

#include <ATen/ops/abs.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/trunc.h>
#include <fmt/format.h>

#include "aot/trace.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "graph/data_symbols.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyObject* member(const char* module, const char* name) {
  return checked(PyObject_GetAttrString(checked(PyImport_ImportModule(module)).get(), name)).release();
}

// What a function of one float gives, and what must hold of the float: undefined where nothing must.
struct FloatFunction {
  PyObject* function;
  const char* name;
  at::Tensor (*run)(const at::Tensor&);
  bool gives_int;
  at::Tensor (*requirement)(const at::Tensor&);
};

// Beyond this an int is none of 64 bits; a nan is no less.
at::Tensor fits_int(const at::Tensor& value) { return at::lt(at::abs(value), 9.0e18); }
at::Tensor is_not_negative(const at::Tensor& value) { return at::ge(value, 0.0); }

const FloatFunction* float_function(PyObject* function) {
  using T = const at::Tensor&;
  static const auto* table = new std::vector<FloatFunction>{
      {member("builtins", "abs"), "abs", [](T x) { return at::abs(x); }, false, nullptr},
      {member("_operator", "abs"), "abs", [](T x) { return at::abs(x); }, false, nullptr},
      {member("math", "fabs"), "math.fabs", [](T x) { return at::abs(x); }, false, nullptr},
      {member("math", "sqrt"), "math.sqrt", [](T x) { return at::sqrt(x); }, false, is_not_negative},
      {member("math", "floor"), "math.floor", [](T x) { return at::floor(x); }, true, fits_int},
      {member("math", "ceil"), "math.ceil", [](T x) { return at::ceil(x); }, true, fits_int},
      {member("math", "trunc"), "math.trunc", [](T x) { return at::trunc(x); }, true, fits_int},
      {member("builtins", "int"), "int", [](T x) { return at::trunc(x); }, true, fits_int},
      {member("builtins", "round"), "round", [](T x) { return at::round(x); }, true, fits_int},
  };
  for (const FloatFunction& row : *table) {
    if (row.function == function) return &row;
  }
  return nullptr;
}

// Undefined for a function that compares nothing.
at::Tensor compared(PyObject* function, const at::Tensor& a, const at::Tensor& b) {
  if (function == operator_function("lt")) return at::lt(a, b);
  if (function == operator_function("le")) return at::le(a, b);
  if (function == operator_function("gt")) return at::gt(a, b);
  if (function == operator_function("ge")) return at::ge(a, b);
  if (function == operator_function("eq")) return at::eq(a, b);
  if (function == operator_function("ne")) return at::ne(a, b);
  return {};
}

Dim int_of(const at::Tensor& value) { return firesteel::dim_of(value.to(at::kLong).item().toSymInt()); }

}  // namespace

// A graph that calls Python's own functions needs no condition: these raise.
void Capture::require_of_float(const at::Tensor& truth) {
  if (!runs_python_again) trace_symbols()->require(Relation::ne(int_of(truth), 0));
}

PyRef Capture::compute_data_float(PyObject* function, PyObject* number) {
  const FloatFunction* row = PyFloat_CheckExact(number) ? float_function(function) : nullptr;
  PyRef plain = row ? plain_number(number) : PyRef();
  if (!plain) return {};
  const at::Tensor& value = python::unpack(plain.get());
  if (row->requirement) require_of_float(row->requirement(value));
  const at::Tensor result = row->run(value);
  PyRef given = checked(PyTuple_Pack(1, number_leaf(number).get()));
  PyRef leaf = record_number(function, row->name, given, row->gives_int ? ValueKind::Int : ValueKind::Float);
  if (!row->gives_int) return new_data_float(python::wrap(result), leaf);
  const Dim dim = int_of(result);
  if (is_data_symbol(dim)) dim_leaves_.emplace(dim.str(), std::move(leaf));
  return size_number(dim);
}

// A power that is a small int: others may leave the real numbers.
PyRef Capture::compute_data_power(PyObject* function, PyObject* base, PyObject* exponent) {
  const bool is_power = function == operator_function("pow") || function == operator_function("ipow");
  if (!is_power || !PyFloat_CheckExact(base) || !PyLong_CheckExact(exponent) || is_open_number(exponent)) return {};
  int overflow = 0;
  const long long power = PyLong_AsLongLongAndOverflow(exponent, &overflow);
  if (overflow || power < 0 || power > 64) return {};
  PyRef plain = plain_number(base);
  if (!plain) return {};
  const at::Tensor result = at::pow(python::unpack(plain.get()), static_cast<double>(power));
  require_of_float(at::isfinite(result));
  PyRef given = checked(PyTuple_Pack(2, number_leaf(base).get(), exponent));
  return new_data_float(python::wrap(result), record_number(function, "operator.pow", given, ValueKind::Float));
}

PyRef Capture::compare_data_floats(PyObject* function, PyObject* first, PyObject* second) {
  if (!is_number(first) || !is_number(second)) return {};
  // Of an int and a float Python compares the exact values, which may differ from what doubles do: one that is open is
  // left alone.
  auto is_plain = [&](PyObject* number) { return PyFloat_CheckExact(number) || !is_open_number(number); };
  if (!is_plain(first) || !is_plain(second)) return {};
  PyRef left = plain_number(first), right = plain_number(second);
  if (!left || !right) return {};
  const at::Tensor truth = compared(function, python::unpack(left.get()), python::unpack(right.get()));
  if (!truth.defined()) return {};
  const Dim dim = int_of(truth);
  PyRef given = checked(PyTuple_Pack(2, number_leaf(first).get(), number_leaf(second).get()));
  PyRef name = python::attribute(function, "__name__");
  PyRef leaf = record_number(function, fmt::format("operator.{}", python::text_of(name.get())), given, ValueKind::Bool);
  if (is_data_symbol(dim)) dim_leaves_.emplace(dim.str(), std::move(leaf));
  return new_truth(Relation::ne(dim, 0));
}

}  // namespace firesteel::capture
