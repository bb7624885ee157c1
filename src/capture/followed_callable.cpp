// What C code gets in place of a C callable while captured: the call comes back to the capture, which then knows what
// it reads and writes, as it does of Python functions that C code calls.
#include "capture/callable_type.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/frame_hook.h"

namespace firesteel::capture {
namespace {

struct FollowedFields {
  static constexpr const char* kName = "firesteel.FollowedCallable";
  static constexpr const char* kRepr = "%R";

  PyRef callable;

  PyObject* wrapped() const { return callable.get(); }
  static PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords);
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(callable.get());
    return 0;
  }
  void clear() {}
};
using FollowedType = CallableType<FollowedFields>;

PyObject* FollowedFields::call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  PyObject* callable = FollowedType::of(self)->callable.get();
  Capture* capture = current_capture();
  if (!capture) return PyObject_Vectorcall(callable, args, count, keywords);
  try {
    if (capture->broken) throw *capture->broken;  // nothing runs any more
    CallArgs given;
    const auto positional = static_cast<size_t>(PyVectorcall_NARGS(count));
    const size_t named = keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
    for (size_t i = 0; i < positional + named; ++i) given.values.push_back(capture->adopt(PyRef::borrow(args[i])));
    if (named > 0) given.keywords = PyRef::borrow(keywords);
    PyRef result = capture::call(*capture, callable, std::move(given));
    capture->settle_deep(result.get());  // C code gets it, and may look at it
    return result.release();
  } catch (const Break& found) {
    capture->broken = found;
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
  }
  if (capture->broken && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the capture was given up");
  return nullptr;
}

// What it calls is Python, which the frame hook sees.
bool is_python_callable(PyObject* value) {
  return PyFunction_Check(value) || PyMethod_Check(value) || is_python_class(Py_TYPE(value));
}

}  // namespace

void make_followed_type(PyObject* module) { FollowedType::install(module); }

PyRef followed(PyObject* value) {
  if (!PyCallable_Check(value) || is_python_callable(value) || followed_callable(value)) return PyRef::borrow(value);
  return FollowedType::make({PyRef::borrow(value)});
}

bool follow_keyword(CallArgs& args, std::string_view name) {
  for (size_t i = 0; i < args.keyword_count(); ++i) {
    PyRef& value = args.values[args.positional() + i];
    if (python::text_of(PyTuple_GET_ITEM(args.keywords.get(), i)) != name || value.get() == Py_None) continue;
    value = followed(value.get());
    return true;
  }
  return false;
}

PyObject* followed_callable(PyObject* object) {
  const FollowedFields* fields = FollowedType::of(object);
  return fields ? fields->callable.get() : nullptr;
}

}  // namespace firesteel::capture
