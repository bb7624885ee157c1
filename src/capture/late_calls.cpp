// Takes note of calls. Their arguments are looked at when the graph has run: what is changed after the call shows.
#include "capture/late_calls.h"

#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

thread_local LateCalls* t_current = nullptr;

}  // namespace

LateCalls::LateCalls(Capture& capture) : capture_(capture), outer_(t_current) { t_current = this; }
LateCalls::~LateCalls() { t_current = outer_; }

PyRef LateCalls::leave(Capture& capture, PyObject* function, const CallArgs& args) {
  if (capture.concrete || !t_current || &t_current->capture_ != &capture) return args.call(function);
  {
    Suspended suspended(capture);  // loading the module is none of the program's doing
    caller();
  }
  PyRef named = args.dict();
  if (!named) named = checked(PyDict_New());
  PyRef values = capture.made(args.tuple());
  PyRef given = capture.made(checked(PyTuple_Pack(2, values.get(), capture.made(std::move(named)).get())));
  t_current->calls_.push_back({PyRef::borrow(function), std::move(given)});
  return PyRef::borrow(Py_None);
}

std::vector<LateCalls::Call> LateCalls::left(const Capture& capture) {
  return t_current && &t_current->capture_ == &capture ? t_current->calls_ : std::vector<Call>();
}

PyObject* LateCalls::caller() {
  static PyObject* const function =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("firesteel._late_calls")).get(), "call")).release();
  return function;
}

}  // namespace firesteel::capture
