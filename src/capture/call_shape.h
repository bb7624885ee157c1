// How a call passes its arguments, and which of the function's parameters each one becomes.
#pragma once

#include <vector>

#include "capture/capture.h"

namespace firesteel::capture {

// So many positional arguments, then these keywords: calls of another shape need another entry.
class CallShape {
 public:
  CallShape(size_t positional, PyObject* keywords) : positional_(positional), keywords_(PyRef::borrow(keywords)) {}
  bool matches(size_t positional, PyObject* keywords) const;
  size_t count() const {
    return positional_ + (keywords_ ? static_cast<size_t>(PyTuple_GET_SIZE(keywords_.get())) : 0);
  }
  size_t positional() const { return positional_; }
  PyObject* keyword(size_t i) const { return PyTuple_GET_ITEM(keywords_.get(), i); }

 private:
  size_t positional_;
  PyRef keywords_;  // a tuple of names, or empty
};

// One parameter of the function: a source for its value, or, for `*args` and `**kwargs`, for each item of a new
// container.
struct Parameter {
  const Source* source = nullptr;
  std::vector<const Source*> items;  // in the order of the tuple or dict
  bool collects = false;
};

// In the order of the function's locals. The call has succeeded: every parameter has a value.
std::vector<Parameter> bind_parameters(Capture& capture, PyObject* function, const CallShape& shape);

}  // namespace firesteel::capture
