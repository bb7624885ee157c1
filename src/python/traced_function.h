// A Python function traced and made callable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/tree.h"
#include "python/py_ref.h"
#include "runtime/executable.h"

namespace firesteel::python {

// Traces `function` on these arguments. Throws what the function raised, or an error of ours with the user's line.
class TracedFunction {
 public:
  struct Options {
    bool grad = false, native = false;
    bool dynamic = false;  // every size of the arguments may be another one at the next call
  };
  TracedFunction(PyObject* function, PyObject* args, PyObject* kwargs, const Options& options);

  // Checks the structure of the arguments, runs the graph, nests its results as the function did.
  PyRef call(PyObject* args, PyObject* kwargs) const;

  const Executable& executable() const { return *executable_; }
  bool has_gradients() const { return options_.grad; }

 private:
  Trace record(PyObject* function, PyObject* args, PyObject* kwargs);
  FunctionResult call_traced(PyObject* function, const std::vector<PyRef>& given,
                             const std::vector<at::Tensor>& inputs);

  Options options_;
  Tree args_tree_, kwargs_tree_;
  std::vector<std::shared_ptr<PyRef>> result_types_;  // a class where a result is more than a torch.Tensor, else null
  std::unique_ptr<Executable> executable_;
};

}  // namespace firesteel::python
