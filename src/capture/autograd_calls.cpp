// torch.autograd.grad inside captured code: one node, where all that it differentiates was computed there.
#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "capture/callables.h"
#include "capture/leaf_hooks.h"
#include "capture/tensor_history.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;
using torch::autograd::Node;

// A hook would change the gradient, and is no part of the graph: there must be none, also later on.
void guard_no_hooks(Capture& capture, PyObject* leaf) {
  static PyObject* hooks = [] {
    PyRef module = checked(PyImport_ImportModule("operator"));
    return checked(PyObject_CallMethod(module.get(), "attrgetter", "s", "_backward_hooks")).release();
  }();
  PyObject* real = capture.real_of(leaf);
  const auto left = LeafHooks::left(capture);
  if (!real && left.empty()) return;
  const bool has_new = std::any_of(left.begin(), left.end(),
                                   [&](const auto& hook) { return !hook.tensor || hook.tensor.get() == real; });
  if (has_new || !real || checked(PyObject_CallOneArg(hooks, real)).get() != Py_None)
    capture.stop(BreakReason::Autograd, "a gradient of a tensor that has hooks is asked for");
  const Source* source = capture.sources.computed(hooks, capture.need_source(real), nullptr);
  capture.add_guard({GuardKind::Identity, source, PyRef::borrow(Py_None)});
}

// All that the outputs were computed from: it must end at leaves.
void watch_history(Capture& capture, PyObject* outputs) {
  std::vector<Node*> open;
  std::unordered_set<Node*> seen;
  auto visit = [&](Node* node) {
    if (node && seen.insert(node).second) open.push_back(node);
  };
  auto start = [&](PyObject* output) {
    if (python::is_tensor(output) && python::unpack(output).requires_grad())
      visit(torch::autograd::impl::gradient_edge(python::unpack(output)).function.get());
  };
  if (PyTuple_Check(outputs) || PyList_Check(outputs)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(outputs); ++i) start(PySequence_Fast_GET_ITEM(outputs, i));
  } else {
    start(outputs);
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (node->name() == "FiresteelInput")
      capture.stop(BreakReason::Autograd, "`grad` goes on into what was computed before the call");
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
      guard_no_hooks(capture, python::wrap(leaf->variable).get());
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
}

bool is_true_constant(PyObject* value) { return value == Py_True; }

}  // namespace

PyRef differentiate(Capture& capture, PyObject* callable, CallArgs& args) {
  constexpr std::string_view kNames[] = {"outputs",      "inputs",           "grad_outputs",
                                         "retain_graph", "create_graph",     "only_inputs",
                                         "allow_unused", "is_grads_batched", "materialize_grads"};
  PyObject* given[std::size(kNames)] = {};
  for (size_t i = 0; i < args.values.size(); ++i) {
    size_t place = i;
    if (i >= args.positional()) {
      const std::string_view name = python::text_of(PyTuple_GET_ITEM(args.keywords.get(), i - args.positional()));
      place = std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames);
    }
    if (place >= std::size(kNames)) return args.call(callable);  // raises
    given[place] = args[i];
  }
  if (!given[0] || !given[1]) return args.call(callable);  // raises
  if (given[7] && given[7] != Py_False)
    capture.stop(BreakReason::Autograd, "`grad` of a batch of gradients is asked for");
  PyRef outputs = capture.substitute(given[0]);
  watch_history(capture, outputs.get());
  PyRef positional = args.tuple();
  PyRef named = args.dict() ? args.dict() : checked(PyDict_New());
  // The history of what is given back is traced later on: it must still be there. Whoever asks for a second gradient of
  // it gets one, where eager would say that it is gone.
  const bool keeps = given[3] && given[3] != Py_None;
  if (!keeps && !(given[4] && is_true_constant(given[4])) && args.positional() <= 3)
    python::check(PyDict_SetItemString(named.get(), "retain_graph", Py_True) == 0);
  return capture.torch_call(callable, "torch.autograd.grad", positional, named);
}

}  // namespace firesteel::capture
