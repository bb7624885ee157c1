// The errors Firesteel throws. Whatever the traced function throws itself reaches the caller unchanged.
#pragma once

#include <stdexcept>
#include <string>

#include "firesteel/export.h"

namespace firesteel {

// One table drives the C++ classes and their Python twins: name, base, what it means.
#define FIRESTEEL_ERRORS(X)                                                                          \
  X(TraceError, Error, "the function cannot be traced")                                              \
  X(DataDependentError, TraceError, "the traced function read a tensor's data")                      \
  X(EscapedTensorError, TraceError, "a traced tensor was used after its trace had ended")            \
  X(OutputTypeError, TraceError, "the traced function returned something that is no tensor")         \
  X(MutationError, TraceError, "the traced function changed a tensor in a way not supported")        \
  X(InputMismatchError, Error, "the inputs differ from those the graph was traced for")              \
  X(GraphFormatError, Error, "the text of a graph cannot be read")                                   \
  X(GraphBreakError, Error, "a compiled function needs a graph break, which fullgraph=True forbids") \
  X(ControlError, Error, "a control was used in a way it cannot be")                                 \
  X(RecompileLimitError, Error,                                                                      \
    "a compiled function was compiled too often, and fullgraph=True forbids running it eagerly")     \
  X(UnsupportedPlatformError, Error, "this build of torch, Python or machine is not supported")      \
  X(InternalError, Error, "a mistake of Firesteel's own")

// What every error of Firesteel derives from. `what()` is the whole text a person reads.
class FIRESTEEL_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual const char* type_name() const noexcept { return "Error"; }
};

#define FIRESTEEL_DECLARE_ERROR(Name, Base, Doc)                      \
  class FIRESTEEL_API Name : public Base {                            \
   public:                                                            \
    using Base::Base;                                                 \
    const char* type_name() const noexcept override { return #Name; } \
  };
FIRESTEEL_ERRORS(FIRESTEEL_DECLARE_ERROR)
#undef FIRESTEEL_DECLARE_ERROR

}  // namespace firesteel
