// The listeners, and what they are told. Their mistakes are their own.
#include "capture/events.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "base/progress.h"
#include "capture/describe.h"
#include "capture/frame_hook.h"
#include "python/errors.h"

namespace nb = nanobind;

namespace firesteel::capture {
namespace {

PyObject* g_capture_listener = nullptr;
PyObject* g_event_listener = nullptr;
PyObject* g_progress_listener = nullptr;

void show_progress(const ProgressNews& news) {
  if (!Py_IsInitialized()) return;
  const python::Gil gil;
  // In the midst of a capture it is for the interpreter to tell, between two instructions.
  if (!g_progress_listener || current_capture()) return;
  python::ErrorAside aside;
  PyRef keeper = PyRef::borrow(g_progress_listener);
  const std::string stage(news.stage);
  PyRef told =
      PyRef::steal(PyObject_CallFunction(keeper.get(), "snndd", stage.c_str(), static_cast<Py_ssize_t>(news.done),
                                         static_cast<Py_ssize_t>(news.asked), news.stage_seconds, news.seconds));
  if (told) return;
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return PyErr_WriteUnraisable(keeper.get());
  // Meant for the program, not for what shows progress.
  PyErr_Clear();
  PyErr_SetInterrupt();
}

void set(PyObject*& place, PyObject* listener) {
  PyRef old = PyRef::steal(place);
  place = listener == Py_None ? nullptr : Py_NewRef(listener);
}

void tell_counters(const Segment& segment) {
  const Break* broken = segment.broken ? &*segment.broken : nullptr;
  const std::string reason = broken ? broken->what() : "";
  PyRef told = PyRef::steal(PyObject_CallFunction(
      g_capture_listener, "sssisssnOd", segment.function.c_str(), segment.file.c_str(), segment.graph_text.c_str(),
      segment.line, broken ? row(broken->reason).id : "", reason.c_str(), broken ? broken->place.c_str() : "",
      static_cast<Py_ssize_t>(broken ? broken->depth : 0), segment.kind == SegmentKind::Eager ? Py_True : Py_False,
      segment.seconds));
  if (!told) PyErr_WriteUnraisable(g_capture_listener);
}

nb::dict describe(PyCodeObject* code) {
  nb::dict facts;
  facts["function"] = nb::borrow(code->co_qualname);
  facts["file"] = nb::borrow(code->co_filename);
  facts["line"] = code->co_firstlineno;
  return facts;
}

bool is_own(PyObject* type) {
  static PyObject* own = [] {
    PyRef module = python::checked(PyImport_ImportModule("firesteel._C"));
    return python::checked(PyObject_GetAttrString(module.get(), "Error")).release();
  }();
  return PyObject_IsSubclass(type, own) == 1;
}

template <class Facts>
void tell(const char* kind, Facts&& facts) {
  if (!g_event_listener) return;
  python::ErrorAside aside;
  PyRef keeper = PyRef::borrow(g_event_listener);
  const nb::dict told = facts();
  PyRef done = PyRef::steal(PyObject_CallFunction(keeper.get(), "sO", kind, told.ptr()));
  if (!done) PyErr_WriteUnraisable(keeper.get());
}

}  // namespace

void set_event_listener(PyObject* listener) { set(g_event_listener, listener); }
void set_progress_listener(PyObject* listener) {
  set(g_progress_listener, listener);
  firesteel::set_progress_listener(g_progress_listener ? &show_progress : nullptr);
}
void set_capture_listener(PyObject* listener) { set(g_capture_listener, listener); }

void tell_capture(const Segment& segment) {
  if (g_capture_listener) {
    python::ErrorAside aside;
    PyRef keeper = PyRef::borrow(g_capture_listener);
    tell_counters(segment);
  }
  tell("capture", [&] { return describe(segment); });
}

void tell_recompile(const Recompile& note) {
  tell("recompile", [&] { return describe(note); });
}

void tell_fallback(PyCodeObject* code, BreakReason reason) {
  tell("fallback", [&] {
    nb::dict facts = describe(code);
    facts["reason"] = row(reason).id;
    return facts;
  });
}

void tell_error(PyCodeObject* code) {
  if (!g_event_listener || !PyErr_Occurred()) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (is_own(type)) {
    tell("error", [&] {
      nb::dict facts = describe(code);
      facts["type"] = reinterpret_cast<PyTypeObject*>(type)->tp_name;
      PyRef text = PyRef::steal(PyObject_Str(value));
      if (!text) PyErr_Clear();
      facts["message"] = std::string(python::text_of(text.get()));
      return facts;
    });
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace firesteel::capture
