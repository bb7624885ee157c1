// Other ways to write a call: keywords in their places, arguments that are the defaults left out or put in.
#pragma once

#include <optional>
#include <vector>

#include "capture/pieces.h"

namespace firesteel::capture {

// Borrows its values from the call it is made of, and from the function's defaults.
class EqualCall {
 public:
  // Nothing where there is no other way. `with_defaults`: those of positional parameters are put in, else left out.
  static std::optional<EqualCall> of(PyObject* function, const CallValues& values, bool with_defaults);
  CallValues values() const { return {raw_.data(), positional_, keywords_.get()}; }

 private:
  std::vector<PyObject*> raw_;
  size_t positional_ = 0;
  PyRef keywords_;  // a tuple of names, or empty
};

}  // namespace firesteel::capture
