// Runs what a user's backend made of a captured graph. Knows nothing of torch.fx: a Python builder gets the graph call
// by call (python/firesteel/interop).
#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "capture/backend_inputs.h"
#include "capture/overridden_calls.h"
#include "capture/runner.h"
#include "capture/wrapper_tensors.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;
using BuilderNodes = std::unordered_map<const Value*, PyRef>;

template <class Items, class Make>
PyRef new_tuple(const Items& items, Make make) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  Py_ssize_t next = 0;
  for (const auto& item : items) PyTuple_SET_ITEM(tuple.get(), next++, make(item).release());
  return tuple;
}

PyRef new_int(int64_t number) { return checked(PyLong_FromLongLong(number)); }

// (sizes, strides, dtype, device, requires_grad); None for a number.
PyRef describe(const Type& type) {
  if (!type.is_tensor()) return PyRef::borrow(Py_None);
  auto dim = [](const Dim& dim) { return new_int(dim.number()); };
  return checked(Py_BuildValue("(NNNNO)", new_tuple(type.sizes, dim).release(), new_tuple(type.strides, dim).release(),
                               python::wrap_dtype(type.dtype).release(), python::wrap_device(type.device).release(),
                               type.requires_grad ? Py_True : Py_False));
}

// (file, line, function), or None.
PyRef describe(const SourceRef& source) {
  if (!source || !source->file) return PyRef::borrow(Py_None);
  return checked(Py_BuildValue("(sis)", source->file->path.c_str(), source->line, source->function.c_str()));
}

// Hands one call to the builder: callable, args, kwargs, ways to the results, their types, the lines that led to it
// from the innermost out, the variables that held them first, and the modules it is in.
void build_call(PyObject* builder, const Node& node, BuilderNodes& known) {
  const auto& call = *static_cast<const TorchCall*>(node.op.callee.get());
  std::vector<PyRef> leaves;
  node.each_input([&](const Value* value) { leaves.push_back(known.at(value)); });
  size_t next = 0;
  PyRef args = python::unflatten(call.args, leaves, next);
  PyRef kwargs = python::unflatten(call.kwargs, leaves, next);
  PyRef ways = new_tuple(call.results, [](const auto& way) { return new_tuple(way, new_int); });
  PyRef types = new_tuple(node.outputs, [](const auto& output) { return describe(output->type); });
  PyRef names = new_tuple(node.outputs, [](const auto& output) {
    return checked(PyUnicode_FromStringAndSize(output->name.data(), static_cast<Py_ssize_t>(output->name.size())));
  });
  PyRef lines = new_tuple(call.stack, [](const SourceRef& source) { return describe(source); });
  PyRef made = checked(PyObject_CallMethod(builder, "call", "OOOOOOOO", call.callable.get(), args.get(), kwargs.get(),
                                           ways.get(), types.get(), lines.get(), names.get(),
                                           call.modules ? call.modules.get() : Py_None));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    known[node.outputs[i].get()] = checked(PySequence_GetItem(made.get(), static_cast<Py_ssize_t>(i)));
  }
}

// The inputs that are read, as PyTorch orders them: by the first call that takes them, or by when they were loaded.
std::vector<size_t> in_order_of_use(const Graph& graph, const std::vector<BackendInput>& inputs) {
  std::unordered_map<const Value*, size_t> places;
  for (size_t i = 0; i < graph.inputs.size(); ++i) places.emplace(graph.inputs[i].value.get(), i);
  std::vector<const Value*> read;
  std::vector<std::pair<size_t, size_t>> order;  // when, and which
  auto take = [&](size_t when) {
    for (const Value* value : read) {
      auto found = places.find(value);
      if (found == places.end()) continue;
      order.emplace_back(inputs[found->second].calls_before.value_or(when), found->second);
      places.erase(found);
    }
    read.clear();
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes[i]->each_input([&](const Value* value) { read.push_back(value); });
    take(i);
  }
  for (const Arg& output : graph.outputs) read.push_back(output.value);
  take(graph.nodes.size());
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return inputs[a.second].calls_before.has_value() && !inputs[b.second].calls_before.has_value();
  });
  std::vector<size_t> found;
  for (const auto& [when, which] : order) found.push_back(which);
  return found;
}

// What classes of tensors have to say was followed, and is part of the graph: the backend gets plain tensors.
PyRef without_class(PyObject* input) {
  if (!python::is_tensor(input) || python::is_exact_tensor(input) || !is_asked(input) || is_wrapper(input))
    return PyRef::borrow(input);
  static PyObject* const plain =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "Tensor")).release();
  return checked(PyObject_CallFunctionObjArgs(subclassing_method(), input, plain, nullptr));
}

class CallableRunner final : public Runner {
 public:
  CallableRunner(Graph graph, std::vector<BackendInput> inputs, PyRef compiler) : compiler_(std::move(compiler)) {
    // What nobody reads is no input: all tensors of a call are collected, also those in containers.
    std::vector<Input> kept;
    for (size_t i : in_order_of_use(graph, inputs)) {
      kept.push_back(std::move(graph.inputs[i]));
      kept.back().captured = at::Tensor();  // comes through the guards' slots, as all others
      inputs_.push_back(std::move(inputs[i]));
    }
    graph.inputs = std::move(kept);
    outputs_ = graph.outputs.size();
    for (const Arg& output : graph.outputs) numbers_.push_back(!output.value->type.is_tensor());
    graph_ = std::make_unique<Graph>(std::move(graph));
  }

  bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const override {
    std::vector<PyRef> held;
    std::vector<PyObject*> raw{nullptr};
    for (const BackendInput& input : inputs_) raw.push_back(held.emplace_back(without_class(slots[input.slot])).get());
    if (!compiled_) compile(held);
    PyRef compiled = compiled_, builder = builder_;
    PyRef result = checked(
        PyObject_Vectorcall(compiled.get(), raw.data() + 1, held.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!take(result.get(), outputs)) {
      checked(PyObject_CallMethod(builder.get(), "refuse", "(O)", result.get()));
    }
    return true;
  }

  double compile_seconds() const override { return compile_seconds_; }

  int traverse(visitproc visit, void* arg) const override {
    Py_VISIT(compiler_.get());
    Py_VISIT(builder_.get());
    Py_VISIT(compiled_.get());
    return 0;
  }

 private:
  void compile(const std::vector<PyRef>& examples) const {
    const auto begin = std::chrono::steady_clock::now();
    PyRef builder = checked(PyObject_CallFunction(compiler_.get(), "s", graph_->name.c_str()));
    BuilderNodes known;
    for (size_t i = 0; i < examples.size(); ++i) {
      const BackendInput& input = inputs_[i];
      PyRef dims = new_tuple(input.open, new_int), apart = new_tuple(input.apart, new_int);
      PyObject* number = input.number ? input.number.get() : Py_None;
      known[graph_->inputs[i].value.get()] = checked(PyObject_CallMethod(
          builder.get(), "input", "sOOOO", input.path.c_str(), examples[i].get(), dims.get(), number, apart.get()));
    }
    for (const auto& node : graph_->nodes) build_call(builder.get(), *node, known);
    PyRef results = new_tuple(graph_->outputs, [&](const Arg& output) { return known.at(output.value); });
    PyRef compiled = checked(PyObject_CallMethod(builder.get(), "compile", "(O)", results.get()));
    if (compiled_) return;  // another thread was quicker
    builder_ = std::move(builder);
    compiled_ = std::move(compiled);
    compile_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  bool take(PyObject* result, std::vector<PyRef>& outputs) const {
    if (!PyTuple_Check(result) && !PyList_Check(result)) return false;
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(result)) != outputs_) return false;
    for (size_t i = 0; i < outputs_; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(result, i);
      if (!python::is_tensor(item) && !((is_number(item) || PyBool_Check(item)) && numbers_[i])) return false;
      outputs.push_back(PyRef::borrow(item));
    }
    return true;
  }

  PyRef compiler_;
  std::vector<BackendInput> inputs_;
  size_t outputs_ = 0;
  std::vector<bool> numbers_;  // of each output: it is one
  std::unique_ptr<Graph> graph_;
  mutable PyRef builder_, compiled_;  // set at the first run
  mutable double compile_seconds_ = 0;
};

}  // namespace

std::unique_ptr<Runner> make_callable_runner(Graph graph, std::vector<BackendInput> inputs, PyRef compiler) {
  return std::make_unique<CallableRunner>(std::move(graph), std::move(inputs), std::move(compiler));
}

}  // namespace firesteel::capture
