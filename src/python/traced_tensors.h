// Keeps traced tensors from giving out data they do not have, and lets them be printed.
#pragma once

#include "python/errors.h"
#include "python/py_ref.h"

namespace firesteel::python {

// Some of torch's bindings read memory without asking the dispatcher (`numpy()`, `tolist()`, `data_ptr()`, storages,
// DLPack). From the first trace on they look at their tensor first: for a traced one they raise DataDependentError, or
// EscapedTensorError once its trace has ended. All other tensors pay one test of a bit. The GIL is held.
void watch_data_reads();

// The same for assignments that put a traced tensor into a real one or the other way round: `p.data = …`, `p.grad = …`,
// `torch.utils.swap_tensors`. They raise MutationError: a trace changes nothing outside it.
void watch_assignments();

// True for a tensor object that stands for a value of a trace, running or ended.
bool is_traced_object(PyObject* object);

// Runs a C++ body at the border to Python: an exception becomes a Python error and `failed`.
template <class Result, class F>
Result at_border(Result failed, F&& body) {
  try {
    return body();
  } catch (...) {
    set_python_error_or_runtime_error(std::current_exception());
    return failed;
  }
}

}  // namespace firesteel::python
