// Binding, as CPython has done it for the frame at hand.
#include "capture/call_shape.h"

#include "python/errors.h"

namespace firesteel::capture {

bool CallShape::matches(size_t positional, PyObject* keywords) const {
  if (positional != positional_) return false;
  if (keywords == keywords_.get()) return true;
  const Py_ssize_t given = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  const Py_ssize_t expected = keywords_ ? PyTuple_GET_SIZE(keywords_.get()) : 0;
  if (given != expected) return false;
  for (Py_ssize_t i = 0; i < given; ++i) {
    PyObject *a = PyTuple_GET_ITEM(keywords, i), *b = PyTuple_GET_ITEM(keywords_.get(), i);
    if (a != b && PyUnicode_Compare(a, b) != 0) return false;
  }
  return true;
}

std::vector<Parameter> bind_parameters(Capture& capture, PyObject* function, const CallShape& shape) {
  auto* raw = reinterpret_cast<PyFunctionObject*>(function);
  auto* code = reinterpret_cast<PyCodeObject*>(raw->func_code);
  const Source* own = capture.need_source(function);
  const int positional = code->co_argcount, named = code->co_kwonlyargcount;
  const size_t keywords = shape.count() - shape.positional();
  std::vector<bool> used(keywords, false);
  auto name = [&](int i) { return PyTuple_GET_ITEM(code->co_localsplusnames, i); };
  auto text = [&](int i) { return std::string(python::text_of(name(i))); };

  auto keyword_for = [&](int i) -> const Source* {
    for (size_t k = 0; k < keywords; ++k) {
      if (shape.keyword(k) != name(i) && PyUnicode_Compare(shape.keyword(k), name(i)) != 0) continue;
      used[k] = true;
      return capture.sources.argument(static_cast<int64_t>(shape.positional() + k), text(i));
    }
    return nullptr;
  };

  std::vector<Parameter> parameters(positional + named);
  const Py_ssize_t defaults = raw->func_defaults ? PyTuple_GET_SIZE(raw->func_defaults) : 0;
  for (int i = 0; i < positional; ++i) {
    if (static_cast<size_t>(i) < shape.positional()) {
      parameters[i].source = capture.sources.argument(i, text(i));
    } else if (const Source* source = i >= code->co_posonlyargcount ? keyword_for(i) : nullptr) {
      parameters[i].source = source;
    } else {
      const Source* in = capture.sources.step(own, AccessKind::FunctionDefaults);
      parameters[i].source = capture.sources.item(in, static_cast<int64_t>(i - (positional - defaults)));
    }
  }
  for (int i = positional; i < positional + named; ++i) {
    parameters[i].source = keyword_for(i);
    if (parameters[i].source) continue;
    parameters[i].source = capture.sources.item(capture.sources.step(own, AccessKind::FunctionKwDefaults), name(i));
  }
  if (code->co_flags & CO_VARARGS) {
    Parameter& rest = parameters.emplace_back();
    rest.collects = true;
    for (size_t i = positional; i < shape.positional(); ++i) {
      const std::string at = text(positional + named) + "[" + std::to_string(i - positional) + "]";
      rest.items.push_back(capture.sources.argument(static_cast<int64_t>(i), at));
    }
  }
  if (code->co_flags & CO_VARKEYWORDS) {
    Parameter& rest = parameters.emplace_back();
    rest.collects = true;
    for (size_t k = 0; k < keywords; ++k) {
      if (used[k]) continue;
      const std::string at(python::text_of(shape.keyword(k)));
      rest.items.push_back(capture.sources.argument(static_cast<int64_t>(shape.positional() + k), at));
    }
  }
  return parameters;
}

}  // namespace firesteel::capture
