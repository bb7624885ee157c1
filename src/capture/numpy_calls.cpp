// Functions of numpy on Python's own numbers, and lists of these: `np.log(2.0)`, `np.prod(x.shape)`. On arrays they are
// not followed.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "capture/arrays.h"

#include "capture/callables.h"

namespace firesteel::capture {
namespace {

bool is_numpy(PyObject* object, std::string_view type) { return type == Py_TYPE(object)->tp_name; }

// A number that follows from those in lists and tuples.
PyRef call_on_lists(Capture& capture, PyObject* callable, const CallArgs& args) {
  constexpr std::string_view kPure[] = {"prod", "sum", "max", "min", "amax", "amin", "mean", "argmax", "argmin"};
  const bool is_plain = args.values.size() == 1 && !args.keyword_count();
  if (!is_plain || !is_numpy(callable, "numpy._ArrayFunctionDispatcher")) return {};
  PyRef name = python::attribute(callable, "__name__");
  if (!name || std::find(std::begin(kPure), std::end(kPure), python::text_of(name.get())) == std::end(kPure)) return {};
  if (!(PyTuple_Check(args[0]) || PyList_CheckExact(args[0])) || !capture.is_deep_constant(args[0])) return {};
  capture.settle_deep(args[0]);
  PyRef result;
  {
    Suspended suspended(capture);
    result = args.call(callable);
  }
  return is_array_number(result.get()) ? capture.made(std::move(result)) : PyRef();
}

}  // namespace

PyRef call_numpy_function(Capture& capture, PyObject* callable, const CallArgs& args) {
  if (PyRef number = call_on_lists(capture, callable, args)) return number;
  if (!is_numpy(callable, "numpy.ufunc") || args.values.empty() || args.keyword_count()) return {};
  for (const PyRef& value : args.values) {
    const bool is_own = is_numpy(value.get(), "numpy.float64") && capture.is_made(value.get());
    if (!is_number(value.get()) && !is_own) return {};
    capture.settle(value.get());
  }
  PyRef result;
  {
    Suspended suspended(capture);
    result = args.call(callable);
  }
  // Others come with a warning at every call.
  const bool is_finite = PyFloat_Check(result.get()) && std::isfinite(PyFloat_AS_DOUBLE(result.get()));
  return is_finite ? capture.made(std::move(result)) : PyRef();
}

}  // namespace firesteel::capture
