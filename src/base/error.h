// Raising errors: a user's mistake and our own are different types (firesteel/error.h), raised by different macros.
#pragma once

#include <string>

#include <fmt/format.h>

#include "firesteel/error.h"

namespace firesteel {

// Throws errors that must pass through torch's own frames. The Python layer installs one that throws the
// Python twin instead, so that user code sees `firesteel.DataDependentError` and not a bare RuntimeError.
using Thrower = void (*)(const Error&);
FIRESTEEL_API void set_thrower(Thrower thrower);

namespace detail {
FIRESTEEL_API Thrower current_thrower();
[[noreturn]] FIRESTEEL_API void raise_internal(const char* file, int line, const char* condition,
                                               const std::string& message);

template <class E>
[[noreturn]] __attribute__((cold, noinline)) void raise(const std::string& message) {
  E error(message);
  if (Thrower thrower = current_thrower()) thrower(error);
  throw error;
}
}  // namespace detail

// FS_RAISE(DataDependentError, "…{}", x): the user's mistake.
#define FS_RAISE(Type, ...) ::firesteel::detail::raise<::firesteel::Type>(::fmt::format(__VA_ARGS__))
#define FS_REQUIRE(cond, Type, ...)                                \
  do {                                                             \
    if (__builtin_expect(!(cond), 0)) FS_RAISE(Type, __VA_ARGS__); \
  } while (0)

// FS_CHECK(cond, "…{}", x): our mistake, an invariant that does not hold.
#define FS_CHECK(cond, ...)                                                                          \
  do {                                                                                               \
    if (__builtin_expect(!(cond), 0))                                                                \
      ::firesteel::detail::raise_internal(__FILE__, __LINE__, #cond, ::fmt::format("" __VA_ARGS__)); \
  } while (0)

}  // namespace firesteel
