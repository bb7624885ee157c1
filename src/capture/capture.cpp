// The state of a capture: stopping, guards, and what is held.
#include "capture/capture.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "capture/identities.h"
#include "guards/ambient.h"
#include "guards/registrations.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

constexpr size_t kFramesShown = 16;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void add_place(Break& found) {
  python::ErrorAside aside;
  const std::vector<python::UserLine> lines = python::user_lines(kFramesShown);
  if (lines.empty()) return;
  found.place = python::show(lines.front());
  found.file = lines.front().file;
  found.line = lines.front().line;
  for (size_t i = lines.size(); i-- > 1;) {
    const std::string file = std::filesystem::path(lines[i].file).filename().string();
    found.inside +=
        fmt::format("{}{} ({}:{})", found.inside.empty() ? "" : " → ", lines[i].function, file, lines[i].line);
  }
}

}  // namespace

PyRef interned(const char* text) { return python::checked(PyUnicode_InternFromString(text)); }

PyRef CallArgs::tuple() const {
  PyRef result = python::checked(PyTuple_New(static_cast<Py_ssize_t>(positional())));
  for (size_t i = 0; i < positional(); ++i) PyTuple_SET_ITEM(result.get(), i, PyRef(values[i]).release());
  return result;
}

PyRef CallArgs::dict() const {
  if (!keyword_count()) return {};
  PyRef result = python::checked(PyDict_New());
  for (size_t i = 0; i < keyword_count(); ++i) {
    python::check(PyDict_SetItem(result.get(), PyTuple_GET_ITEM(keywords.get(), i), values[positional() + i].get()) ==
                  0);
  }
  return result;
}

PyRef CallArgs::call(PyObject* callable) const {
  std::vector<PyObject*> raw(values.size() + 1);
  for (size_t i = 0; i < values.size(); ++i) raw[i + 1] = values[i].get();
  return python::checked(
      PyObject_Vectorcall(callable, raw.data() + 1, positional() | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords.get()));
}

Break Capture::break_here(BreakReason reason, std::string detail) {
  Break found{reason, std::move(detail), {}, {}};
  python::ErrorAside aside;
  Suspended suspended(*this);  // reading the user's line from its file is none of the program's doing
  // A library's function runs as it is when it is called by itself: the break is that of the call.
  chain_at_break = chain;
  found.depth = depth > chain && called && is_library(called) ? chain : depth;
  found.in_whole_stretch = whole_stretches > 0;
  found.is_error = found.in_whole_stretch || guards::break_policy() == guards::BreakPolicy::Error;
  add_place(found);
  return found;
}

void Capture::stop(BreakReason reason, std::string detail) { throw break_here(reason, std::move(detail)); }

void Capture::refuse(const char* type_name, const std::string& message) {
  Suspended suspended(*this);
  try {
    python::raise_as_is(type_name, python::insert_place(message, python::show_user_line()));
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  refuse_with_python_error();
}

void Capture::refuse_with_python_error() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  PyRef type_ref = PyRef::steal(type), traceback_ref = PyRef::steal(traceback);
  interrupt = PyRef::steal(value);
  throw Break{BreakReason::Interrupt, "", {}, {}};
}

void Capture::stop_for_python_error() {
  if (!PyErr_Occurred()) stop(BreakReason::Internal, "an error without an exception");
  if (concrete) python::throw_python_error();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), value_ref = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  const std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  PyRef text = PyRef::steal(PyObject_Str(value));
  if (!text) PyErr_Clear();
  const std::string message = first_line(std::string(python::text_of(text.get())));
  if (traceback) PyException_SetTraceback(value, traceback);
  uncaught = value_ref;
  if (name.ends_with("DataDependentError")) stop(BreakReason::DataDependent, message);
  stop(BreakReason::Exception, fmt::format("{}: {}", name, message));
}

namespace {

// The error that is set was made by the captured code.
bool is_raised_by_code(const Capture& capture) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const bool made = value && PyExceptionInstance_Check(value) && capture.birth_of(value) >= 0;
  PyErr_Restore(type, value, traceback);
  return made;
}

}  // namespace

void Capture::stop_for_own_error() {
  if (interrupted) refuse_with_python_error();
  static PyObject* own = [] {
    python::ErrorAside aside;
    PyRef module = python::checked(PyImport_ImportModule("firesteel._C"));
    return python::checked(PyObject_GetAttrString(module.get(), "Error")).release();
  }();
  if (PyErr_ExceptionMatches(own)) stop_for_python_error();
  // Nor is it the code's own that memory or the stack ran out here, but where it raises that error itself: where it
  // runs for real they may well last.
  const bool ran_out = PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_RecursionError);
  if (!ran_out || is_raised_by_code(*this)) return;
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) stop_for_python_error();
  PyErr_Clear();
  stop(BreakReason::Depth, "as many as Python allows");
}

void Capture::guard_present(PyObject* dict, const Source* in, PyObject* key) {
  if (!in || concrete || journal.touched(dict)) return;
  add_guard({GuardKind::Present, in, PyRef::borrow(key)});
}

void Capture::add_guard(Guard guard) {
  if (concrete) return;
  const bool keyed = guard.kind == GuardKind::Absent || guard.kind == GuardKind::Present;
  PyObject* key = keyed ? guard.expected.get() : nullptr;
  if (guard.other) key = const_cast<PyObject*>(reinterpret_cast<const PyObject*>(guard.other));
  if (guarded_.emplace(guard.kind, guard.source, key).second) guards.push_back(std::move(guard));
}

namespace {

bool is_class_of_torch(PyTypeObject* type) {
  PyRef module = python::attribute(reinterpret_cast<PyObject*>(type), "__module__");
  return python::text_of(module.get()).starts_with("torch.");
}

}  // namespace

void Capture::guard_class_attribute(PyTypeObject* type, PyObject* name, PyObject* found) {
  // Classes of autograd's contexts, which torch makes as it goes, tell of torch alone.
  if (concrete || (unrecorded && is_class_of_torch(type))) return;
  auto& watched = classes_[type];
  if (!watched) {
    watched = std::make_shared<guards::ClassAttributes>();
    watched->type = PyRef::borrow(reinterpret_cast<PyObject*>(type));
    Guard guard{GuardKind::ClassAttributes};
    guard.attributes = watched;
    guards.push_back(std::move(guard));
  }
  for (const auto& [known, value] : watched->found) {
    if (known.get() == name) return;
  }
  watched->found.emplace_back(PyRef::borrow(name), PyRef::borrow(found));
}

void Capture::note_strangers(PyObject* type, PyObject* asked) {
  if (concrete) return;
  for (Py_ssize_t i = 0; PyTuple_Check(asked) && i < PyTuple_GET_SIZE(asked); ++i)
    note_strangers(type, PyTuple_GET_ITEM(asked, i));
  if (!guards::is_abstract_class(asked)) return;
  for (const auto& [known, abstract] : strangers) {
    if (known.get() == type && abstract.get() == asked) return;
  }
  strangers.emplace_back(PyRef::borrow(type), PyRef::borrow(asked));
}

PyRef Capture::cached_call(PyObject* callable, const CallArgs& args) {
  if (!cached_calls) return args.call(callable);
  auto same = [](const PyRef& a, const PyRef& b) {
    if (a.get() == b.get()) return true;
    return is_guardable_constant(a.get()) && is_guardable_constant(b.get()) && python::same_constant(a.get(), b.get());
  };
  auto same_names = [](PyObject* a, PyObject* b) {
    return a == b || (a && b && PyObject_RichCompareBool(a, b, Py_EQ) == 1);
  };
  const size_t index = cached_count_++;
  if (index < cached_calls->size()) {
    const CachedCall& known = (*cached_calls)[index];
    if (known.callable.get() == callable && same_names(known.args.keywords.get(), args.keywords.get()) &&
        std::equal(known.args.values.begin(), known.args.values.end(), args.values.begin(), args.values.end(), same))
      return known.result;
    cached_calls->resize(index);  // this attempt goes another way
  }
  PyRef result = args.call(callable);
  cached_calls->push_back({PyRef::borrow(callable), args, result});
  return result;
}

Capture::~Capture() {
  journal.roll_back();
  forget_made_addresses();
}

PyRef Capture::made(PyRef object) {
  if (!concrete) births_[object.get()] = clock;
  return object;
}

long Capture::birth_of(PyObject* object) const {
  auto found = births_.find(object);
  return found == births_.end() ? -1 : found->second;
}

}  // namespace firesteel::capture
