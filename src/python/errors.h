// Firesteel's errors as Python exceptions, and the borders they cross.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"
#include "python/py_ref.h"

namespace firesteel::python {

// Makes `firesteel.Error` and one class a row of FIRESTEEL_ERRORS in `module`, and installs the thrower that raises
// them through torch's frames.
void install_errors(PyObject* module);

// Sets the Python error for a C++ exception: our own types, torch's, and Python errors on their way. Rethrows all
// others.
void set_python_error(const std::exception_ptr& error);

// The same where no one is left to take other exceptions: they become RuntimeErrors.
void set_python_error_or_runtime_error(const std::exception_ptr& error);

// From now on `provider(name)` is asked for the Python class of an error; None: the one there is. None to end it.
void set_error_provider(PyObject* provider);

// What the user called, for errors about an operator that it leads to (`numpy()` reads one number to be seen by the
// tracer).
class CallName {
 public:
  explicit CallName(const char* name);
  ~CallName();
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;
};

// Throws the pending Python error as torch's own exception type, which torch's bindings and ours give back unchanged.
[[noreturn]] void throw_python_error();

// Throws the pending Python error where a call into Python gave nothing.
inline PyRef checked(PyObject* object) {
  if (!object) throw_python_error();
  return PyRef::steal(object);
}
inline void check(bool ok) {
  if (!ok) throw_python_error();
}

// Throws the Python twin of an error type with exactly this text, not adding the user's line.
[[noreturn]] void raise_as_is(const char* type_name, const std::string& text);

// Puts lines that show a place in the user's program under the first line of a message.
std::string insert_place(const std::string& message, const std::string& place);

}  // namespace firesteel::python
