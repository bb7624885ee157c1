// What a call means to its function does not depend on how it is written.
#include "capture/equal_calls.h"

#include <algorithm>

#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

int place_of(PyObject* name, PyCodeObject* code, int from, int to) {
  for (int i = from; i < to; ++i) {
    PyObject* parameter = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    if (parameter == name || PyUnicode_Compare(parameter, name) == 0) return i;
  }
  return -1;
}

}  // namespace

std::optional<EqualCall> EqualCall::of(PyObject* callable, const CallValues& values, bool with_defaults) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int parameters = code->co_argcount;
  if (values.positional > static_cast<size_t>(parameters)) return std::nullopt;
  std::vector<PyObject*> places(parameters, nullptr), rest;
  std::copy(values.raw, values.raw + values.positional, places.begin());
  PyRef names = checked(PyList_New(0));
  for (size_t k = 0; k < values.count() - values.positional; ++k) {
    PyObject* name = PyTuple_GET_ITEM(values.keywords, k);
    PyObject* value = values.raw[values.positional + k];
    if (const int place = place_of(name, code, code->co_posonlyargcount, parameters); place >= 0) {
      if (places[place]) return std::nullopt;  // given twice: it raises
      places[place] = value;
      continue;
    }
    PyObject* own = function->func_kwdefaults ? PyDict_GetItemWithError(function->func_kwdefaults, name) : nullptr;
    if (own == value) continue;
    python::check(PyList_Append(names.get(), name) == 0);
    rest.push_back(value);
  }
  const auto defaults = function->func_defaults ? static_cast<int>(PyTuple_GET_SIZE(function->func_defaults)) : 0;
  auto default_of = [&](int place) {
    const int index = place - (parameters - defaults);
    return index < 0 ? nullptr : PyTuple_GET_ITEM(function->func_defaults, index);
  };
  int count = parameters;
  if (!with_defaults) {
    while (count > 0 && default_of(count - 1) && (!places[count - 1] || places[count - 1] == default_of(count - 1)))
      --count;
  }
  EqualCall call;
  for (int i = 0; i < count; ++i) {
    call.raw_.push_back(places[i] ? places[i] : default_of(i));
    if (!call.raw_.back()) return std::nullopt;  // one is missing: it raises
  }
  call.positional_ = call.raw_.size();
  if (call.positional_ == values.positional && rest.size() == values.count() - values.positional) return std::nullopt;
  call.raw_.insert(call.raw_.end(), rest.begin(), rest.end());
  if (!rest.empty()) call.keywords_ = checked(PyList_AsTuple(names.get()));
  return call;
}

}  // namespace firesteel::capture
