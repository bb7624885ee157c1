// Exception classes from the error table, the thrower, and the translation at our own border.
#include "python/errors.h"

#include <map>
#include <string_view>

#include <torch/csrc/Exceptions.h>

#include "python/user_frames.h"

namespace firesteel::python {
namespace {

std::map<std::string_view, PyObject*>& classes() {
  static auto* classes = new std::map<std::string_view, PyObject*>;  // the classes live as long as the interpreter
  return *classes;
}

void add_class(PyObject* module, const char* name, PyObject* base, const char* doc) {
  const std::string qualified = std::string("firesteel.") + name;
  PyObject* made = checked(PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr)).release();
  classes()[name] = made;
  check(PyModule_AddObjectRef(module, name, made) == 0);
}

PyObject* g_provider = nullptr;  // gives another class for a name, or None

PyObject* class_of(std::string_view name) {
  if (g_provider) {
    static auto* kept = new std::map<std::string, PyRef, std::less<>>;
    ErrorAside aside;
    PyRef text = new_text(name);
    PyRef other = PyRef::steal(text ? PyObject_CallOneArg(g_provider, text.get()) : nullptr);
    if (!other) PyErr_WriteUnraisable(g_provider);
    if (other && PyExceptionClass_Check(other.get())) return ((*kept)[std::string(name)] = other).get();
  }
  auto found = classes().find(name);
  return found == classes().end() ? classes().at("Error") : found->second;
}

bool shows_user_line(const Error& error) {
  return dynamic_cast<const TraceError*>(&error) || dynamic_cast<const InputMismatchError*>(&error) ||
         dynamic_cast<const InternalError*>(&error);
}

// The tracer names a place in one line of its own (`  at model.py:12 forward`); where that is the line the user stands
// on, show it in full instead. A place elsewhere (the forward line of a backward operator) stays as it is.
std::string with_user_line(const std::string& message) {
  constexpr std::string_view kMark = "\n  at ";
  const size_t mark = message.find(kMark);
  if (mark == std::string::npos) return insert_place(message, show_user_line());
  const size_t end = std::min(message.find('\n', mark + 1), message.size());
  const SourceRef here = user_source();
  const std::string_view place = std::string_view(message).substr(mark, end - mark);
  if (!here || !place.ends_with(fmt::format(":{} {}", here->line, here->function))) return message;
  return insert_place(message.substr(0, mark) + message.substr(end), show_user_line());
}

thread_local const char* t_call_name = nullptr;

// A person calls `item()` or `numpy()`; the operator under them says nothing to most.
std::string in_user_words(std::string message) {
  constexpr std::string_view kRead = "aten::_local_scalar_dense";
  const size_t at = message.find(kRead);
  if (at == std::string::npos) return message;
  return message.replace(at, kRead.size(), t_call_name ? fmt::format("{}()", t_call_name) : "item()");
}

void set_error(const Error& error) {
  // The tracer raises a failure again that the function has swallowed; its text still belongs to the first place.
  thread_local std::string last_message, last_shown;
  thread_local uint64_t last_trace = 0;
  const bool is_same = inside_trace() && last_trace == trace_number() && last_message == error.what();
  if (shows_user_line(error) && !is_same) {
    ErrorAside aside;
    last_trace = trace_number();
    last_shown = in_user_words(with_user_line(error.what()));
    last_message = error.what();
  }
  PyRef text = new_text(shows_user_line(error) ? last_shown : error.what());
  if (text) PyErr_SetObject(class_of(error.type_name()), text.get());
}

void throw_as_python(const Error& error) {
  if (!Py_IsInitialized()) return;  // the C++ exception is thrown instead
  Gil gil;
  set_error(error);
  throw_python_error();
}

}  // namespace

void install_errors(PyObject* module) {
  add_class(module, "Error", PyExc_RuntimeError, "What every error of Firesteel derives from.");
#define X(Name, Base, Doc) add_class(module, #Name, class_of(#Base), Doc);
  FIRESTEEL_ERRORS(X)
#undef X
  set_thrower(&throw_as_python);
}

void set_error_provider(PyObject* provider) {
  PyRef old = PyRef::steal(g_provider);
  g_provider = provider == Py_None ? nullptr : Py_NewRef(provider);
}

void set_python_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    set_error(ours);
  } catch (const python_error&) {
    torch::translate_exception_to_python(error);
  } catch (const pybind11::error_already_set&) {
    torch::translate_exception_to_python(error);
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(error);
  } catch (const torch::PyTorchError&) {
    torch::translate_exception_to_python(error);
  }
}

void set_python_error_or_runtime_error(const std::exception_ptr& error) {
  try {
    set_python_error(error);
  } catch (const std::exception& other) {
    PyErr_SetString(PyExc_RuntimeError, other.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

CallName::CallName(const char* name) { t_call_name = name; }
CallName::~CallName() { t_call_name = nullptr; }

void throw_python_error() {
  // Not by `persist`, which asks for the exception's text: that would run code of the program's.
  python_error error;
  PyErr_Fetch(&error.type, &error.value, &error.traceback);
  throw error;
}

void raise_as_is(const char* type_name, const std::string& text) {
  PyRef message = new_text(text);
  if (message) PyErr_SetObject(class_of(type_name), message.get());
  throw_python_error();
}

std::string insert_place(const std::string& message, const std::string& place) {
  if (place.empty()) return message;
  const size_t end = std::min(message.find('\n'), message.size());
  return message.substr(0, end) + "\n" + place + message.substr(end);
}

}  // namespace firesteel::python
