// The marked callable's fields, and what a call of it does outside a capture or below one.
#include "capture/marked_function.h"

#include "capture/callable_type.h"
#include "capture/callables.h"
#include "capture/frame_hook.h"
#include "capture/region.h"
#include "capture/stance.h"

namespace firesteel::capture {
namespace {

struct MarkedFields {
  static constexpr const char* kName = "firesteel.MarkedFunction";
  static constexpr const char* kRepr = "<firesteel marked function %R>";

  PyRef function;
  FunctionMark mark;
  std::string reason;

  PyObject* wrapped() const { return function.get(); }
  static PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords);
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function.get());
    return 0;
  }
  void clear() {}
};
using MarkedType = CallableType<MarkedFields>;

PyObject* MarkedFields::call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  const MarkedFields& marked = *MarkedType::of(self);
  PyObject* function = marked.function.get();
  try {
    // C code calls it in the middle of a capture: `map(marked, items)`.
    if (Capture* capture = current_capture())
      return call_from_c(*capture, self, args, PyVectorcall_NARGS(count), keywords).release();
    if (marked.mark == FunctionMark::Skipped && Region::current()) {
      std::vector<PyObject*> given;
      if (PyMethod_Check(function)) given.push_back(PyMethod_GET_SELF(function));
      given.insert(given.end(), args, args + PyVectorcall_NARGS(count) + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
      PyObject* plain = PyMethod_Check(function) ? PyMethod_GET_FUNCTION(function) : function;
      const size_t positional = given.size() - (keywords ? PyTuple_GET_SIZE(keywords) : 0);
      if (PyFunction_Check(plain)) return Region::current()->call_skipped(plain, {given.data(), positional, keywords});
    }
    if (marked.mark == FunctionMark::RunOnly) {
      RunOnlyScope run_only;
      return PyObject_Vectorcall(function, args, count, keywords);
    }
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
    return nullptr;
  }
  return PyObject_Vectorcall(function, args, count, keywords);
}

}  // namespace

void make_marked_type(PyObject* module) { MarkedType::install(module); }

PyRef new_marked_function(PyObject* function, FunctionMark mark, std::string reason) {
  return MarkedType::make({PyRef::borrow(function), mark, std::move(reason)});
}

PyObject* marked_callable(PyObject* object) {
  const MarkedFields* marked = MarkedType::of(object);
  return marked ? marked->function.get() : nullptr;
}

FunctionMark mark_on(PyObject* object) { return MarkedType::of(object)->mark; }
const std::string& reason_on(PyObject* object) { return MarkedType::of(object)->reason; }

}  // namespace firesteel::capture
