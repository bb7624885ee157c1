// Errors: a user's mistake and our own are different types, raised by different macros.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "firesteel/export.h"

namespace firesteel {

// One table drives the C++ classes and their Python twins: name, base, what it means.
#define FIRESTEEL_ERRORS(X)                                                                    \
  X(TraceError, Error, "the function cannot be traced")                                        \
  X(DataDependentError, TraceError, "the traced function read a tensor's data")                \
  X(EscapedTensorError, TraceError, "a traced tensor was used after its trace had ended")      \
  X(OutputTypeError, TraceError, "the traced function returned something that is no tensor")   \
  X(MutationError, TraceError, "the traced function changed a tensor in a way not supported")  \
  X(InputMismatchError, Error, "the inputs differ from those the graph was traced for")        \
  X(GraphFormatError, Error, "the text of a graph cannot be read")                             \
  X(UnsupportedPlatformError, Error, "this build of torch, Python or machine is not supported") \
  X(InternalError, Error, "a mistake of Firesteel's own")

// What every error of Firesteel derives from. `what()` is the whole text a person reads.
class FIRESTEEL_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual const char* type_name() const noexcept { return "Error"; }
};

#define FIRESTEEL_DECLARE_ERROR(Name, Base, Doc)                              \
  class FIRESTEEL_API Name : public Base {                                    \
   public:                                                                    \
    using Base::Base;                                                         \
    const char* type_name() const noexcept override { return #Name; }         \
  };
FIRESTEEL_ERRORS(FIRESTEEL_DECLARE_ERROR)
#undef FIRESTEEL_DECLARE_ERROR

// Throws errors that must pass through torch's own frames. The Python layer installs one that throws the
// Python twin instead, so that user code sees `firesteel.DataDependentError` and not a bare RuntimeError.
using Thrower = void (*)(const Error&);
FIRESTEEL_API void set_thrower(Thrower thrower);

namespace detail {
FIRESTEEL_API Thrower current_thrower();
[[noreturn]] FIRESTEEL_API void raise_internal(const char* file, int line, const char* condition, const std::string& message);

template <class E>
[[noreturn]] __attribute__((cold, noinline)) void raise(std::string message) {
  E error(std::move(message));
  if (Thrower thrower = current_thrower()) thrower(error);
  throw error;
}
}  // namespace detail

// FS_RAISE(DataDependentError, "…{}", x): the user's mistake.
#define FS_RAISE(Type, ...) ::firesteel::detail::raise<::firesteel::Type>(::fmt::format(__VA_ARGS__))
#define FS_REQUIRE(cond, Type, ...)              \
  do {                                           \
    if (__builtin_expect(!(cond), 0)) FS_RAISE(Type, __VA_ARGS__); \
  } while (0)

// FS_CHECK(cond, "…{}", x): our mistake, an invariant that does not hold.
#define FS_CHECK(cond, ...)                                                                               \
  do {                                                                                                    \
    if (__builtin_expect(!(cond), 0))                                                                     \
      ::firesteel::detail::raise_internal(__FILE__, __LINE__, #cond, ::fmt::format("" __VA_ARGS__));       \
  } while (0)

}  // namespace firesteel
