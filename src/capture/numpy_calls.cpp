// Functions of numpy on Python's own numbers: `np.log(2.0)`. On arrays they are not followed.
#include <cmath>
#include <string_view>

#include "capture/callables.h"

namespace firesteel::capture {
namespace {

bool is_numpy(PyObject* object, std::string_view type) { return type == Py_TYPE(object)->tp_name; }

}  // namespace

PyRef call_numpy_function(Capture& capture, PyObject* callable, const CallArgs& args) {
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
