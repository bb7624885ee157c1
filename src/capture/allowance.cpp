// Asks the watcher, where there is one.
#include "capture/allowance.h"

#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

// Guarded by the GIL; never destroyed.
python::PyRef& watcher() {
  static auto* held = new python::PyRef;
  return *held;
}

}  // namespace

FixedNumbers& fixed_numbers() {
  static FixedNumbers fixed;
  return fixed;
}

CapturedData& captured_data() {
  static CapturedData data;
  return data;
}

bool& lifts_tensors() {
  static bool lifts = false;
  return lifts;
}

void set_compile_watcher(PyObject* given) {
  watcher() = given == Py_None ? python::PyRef() : python::PyRef::borrow(given);
}

Allowance ask_allowance(size_t own_limit, const std::string& function, size_t held, bool keeps_numbers,
                        const std::function<std::string()>& why) {
  Allowance allowed;
  if (const python::PyRef asked = watcher()) {
    const std::string reason = held ? why() : std::string();
    python::PyRef answer =
        checked(PyObject_CallFunction(asked.get(), "snsO", function.c_str(), static_cast<Py_ssize_t>(held),
                                      reason.c_str(), keeps_numbers ? Py_True : Py_False));
    Py_ssize_t limit = 0;
    int fails = 0;
    python::check(PyArg_ParseTuple(answer.get(), "np", &limit, &fails) != 0);
    if (limit > 0) allowed.limit = static_cast<size_t>(limit);
    allowed.fails = fails != 0;
  }
  if (own_limit) allowed.limit = own_limit;
  return allowed;
}

}  // namespace firesteel::capture
