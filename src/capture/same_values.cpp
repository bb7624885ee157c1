// Guards that the place holds the same at every call: small numbers, None and the like are one object wherever they
// are.
#include "capture/same_values.h"

#include <Python.h>

#include "capture/callables.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {

void guard_same(Capture& capture, const Source* at, PyObject* before, PyObject* value) {
  if (capture.concrete || !value || before != value) return;
  capture.add_guard(
      {is_guardable_constant(value) ? GuardKind::Constant : GuardKind::Identity, at, PyRef::borrow(value)});
}

void guard_same(Capture& capture, PyObject* dict, PyObject* key, PyObject* value) {
  const Source* in = capture.concrete ? nullptr : capture.source_of(dict);
  if (!in || !is_guardable_constant(key)) return;
  PyObject* before = PyDict_GetItemWithError(capture.journal.original(dict), key);
  python::check(before || !PyErr_Occurred());
  if (before == value && value) guard_same(capture, capture.sources.item(in, key), before, value);
}

}  // namespace firesteel::capture
