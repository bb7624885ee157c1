// Tracing a Python function: nested values on the outside, flat tensors within.
#include "python/traced_function.h"

#include <algorithm>

#include "compiler.h"
#include "python/errors.h"
#include "python/input_names.h"
#include "python/python_backward.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"
#include "python/traced_tensors.h"
#include "python/user_frames.h"

namespace firesteel::python {
namespace {

std::vector<at::Tensor> unpack_all(const std::vector<PyRef>& leaves) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(leaves.size());
  for (const PyRef& leaf : leaves) tensors.push_back(unpack(leaf.get()));
  return tensors;
}

// What the graph's text shows: nothing where all arguments are plain tensors, else the arguments with keywords last.
Tree shown_inputs(const Tree& args, const Tree& kwargs) {
  const bool plain =
      std::all_of(args.children.begin(), args.children.end(), [](const Tree& t) { return t.kind == TreeKind::Leaf; });
  if (plain && kwargs.children.empty()) return Tree::leaf();
  Tree shown = args;
  if (!kwargs.children.empty()) shown.children.push_back(kwargs);
  return shown;
}

}  // namespace

TracedFunction::TracedFunction(PyObject* function, PyObject* args, PyObject* kwargs, const Options& asked)
    : options_(asked) {
  watch_data_reads();
  watch_assignments();
  SourceScope sources;
  with_torch_warnings([&] {
    Trace trace = record(function, args, kwargs);
    name_inputs(trace.joint.graph, function, args_tree_, kwargs_tree_);
    CompilerOptions options;
    if (asked.native) options.native = NativeCode::AtOnce;
    executable_ = std::make_unique<Executable>(compile_trace(std::move(trace), options));
  });
}

Trace TracedFunction::record(PyObject* function, PyObject* args, PyObject* kwargs) {
  Flat positional = flatten_input(args, "args");
  Flat named = flatten_input(kwargs, "kwargs");
  args_tree_ = std::move(positional.tree);
  kwargs_tree_ = std::move(named.tree);
  std::vector<PyRef> given = std::move(positional.leaves);
  given.insert(given.end(), named.leaves.begin(), named.leaves.end());

  TraceOptions options;
  options.grad = options_.grad;
  options.name = name_of(function);
  options.input_tree = shown_inputs(args_tree_, kwargs_tree_);
  // Hooks and Python autograd functions take the GIL themselves, on whatever thread the engine runs them.
  options.meet_python_node = [](torch::autograd::Node& node) { watch_backward(node); };
  options.run_backward = [](const std::function<void()>& backward) {
    GilRelease no_gil;
    backward();
  };
  const std::vector<at::Tensor> tensors = unpack_all(given);
  for (const at::Tensor& tensor : tensors) {
    if (!options_.dynamic) break;
    std::vector<DynamicDim>& dims = options.dynamic.emplace_back();
    for (int32_t d = 0; d < tensor.dim(); ++d) dims.push_back({d});
  }
  return trace([&](const std::vector<at::Tensor>& inputs) { return call_traced(function, given, inputs); }, tensors,
               options);
}

FunctionResult TracedFunction::call_traced(PyObject* function, const std::vector<PyRef>& given,
                                           const std::vector<at::Tensor>& inputs) {
  // A traced tensor is of the class its original is of (nn.Parameter), and has the attributes set on it.
  std::vector<PyRef> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(wrap_as(inputs[i], Py_TYPE(given[i].get()), given[i].get()));
  }
  size_t next = 0;
  PyRef args = unflatten(args_tree_, leaves, next);
  PyRef kwargs = unflatten(kwargs_tree_, leaves, next);
  leaves.clear();
  PyRef result = checked(PyObject_Call(function, args.get(), kwargs.get()));

  Flat flat = flatten_result(result.get(), function);
  for (const PyRef& leaf : flat.leaves) {
    PyRef type = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(leaf.get())));
    result_types_.push_back(share_across_threads(std::move(type)));
  }
  return {unpack_all(flat.leaves), std::move(flat.tree)};
}

PyRef TracedFunction::call(PyObject* args, PyObject* kwargs) const {
  std::vector<PyRef> leaves;
  flatten_like(args_tree_, args, "args", /*any_order=*/false, leaves);
  flatten_like(kwargs_tree_, kwargs, "kwargs", /*any_order=*/true, leaves);
  const std::vector<at::Tensor> inputs = unpack_all(leaves);
  std::vector<at::Tensor> results;
  with_torch_warnings([&] {
    GilRelease no_gil;
    results = (*executable_)(inputs);
  });
  leaves.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(i < result_types_.size() ? result_types_[i]->get() : nullptr);
    leaves.push_back(wrap_as(results[i], type, nullptr));
  }
  size_t next = 0;
  return unflatten(executable_->output_tree(), leaves, next);
}

}  // namespace firesteel::python
