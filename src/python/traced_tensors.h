// Keeps traced tensors from giving out data they do not have, and lets them be printed.
#pragma once

#include "python/py_ref.h"

namespace firesteel::python {

// Some of torch's bindings read memory without asking the dispatcher (`numpy()`, `tolist()`, `data_ptr()`, storages,
// DLPack). From the first trace on they look at their tensor first: for a traced one they raise DataDependentError, or
// EscapedTensorError once its trace has ended. All other tensors pay one test of a bit. The GIL is held.
void watch_data_reads();

}  // namespace firesteel::python
