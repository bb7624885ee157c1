// Calls that become one node of the torch-level graph: run on stand-ins, recorded with their arguments and results.
#include <algorithm>

#include <fmt/format.h>

#include "aot/trace.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

using python::Flat;

Arg constant_arg(const Tree& tree) {
  auto* held = static_cast<PyRef*>(tree.context.get());
  PyObject* object = held ? held->get() : Py_None;
  if (object == Py_None) return Arg();
  if (PyBool_Check(object)) return Arg::of_const(object == Py_True);
  if (PyFloat_CheckExact(object)) return Arg::of_const(PyFloat_AS_DOUBLE(object));
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) return Arg::of_const(static_cast<int64_t>(number));
  }
  if (PyUnicode_CheckExact(object)) return Arg::of_const(std::string(python::text_of(object)));
  return Arg::of_const(tree.text);
}

// The arguments as the graph's text shows them; leaves are taken from `next` on.
Arg arg_of(const Tree& tree, const std::vector<Value*>& leaves, size_t& next) {
  if (tree.kind == TreeKind::Leaf) return Arg(leaves.at(next++));
  if (tree.kind == TreeKind::Constant) return constant_arg(tree);
  Arg arg;
  arg.kind = tree.kind == TreeKind::Dict   ? Arg::Kind::Dict
             : tree.kind == TreeKind::List ? Arg::Kind::List
                                           : Arg::Kind::Tuple;
  arg.keys = tree.keys;
  for (const Tree& child : tree.children) arg.items.push_back(arg_of(child, leaves, next));
  return arg;
}

// Tensors inside a result, with the way to each. False where it holds something a node cannot give.
bool find_tensors(PyObject* result, std::vector<Py_ssize_t>& path,
                  std::vector<std::pair<PyRef, std::vector<Py_ssize_t>>>& found) {
  if (python::is_tensor(result)) {
    found.emplace_back(PyRef::borrow(result), path);
    return true;
  }
  if (is_guardable_constant(result)) return true;
  if (PyDict_CheckExact(result)) {
    Py_ssize_t position = 0;
    PyObject* value = nullptr;
    for (Py_ssize_t i = 0; PyDict_Next(result, &position, nullptr, &value); ++i) {
      path.push_back(~i);
      if (!find_tensors(value, path, found)) return false;
      path.pop_back();
    }
    return true;
  }
  if (!PyTuple_Check(result) && !PyList_CheckExact(result)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i) {
    path.push_back(i);
    if (!find_tensors(PySequence_Fast_GET_ITEM(result, i), path, found)) return false;
    path.pop_back();
  }
  return true;
}

Type type_of(const at::Tensor& tensor) {
  Type type = Type::tensor(tensor.scalar_type(), tensor.device(), {tensor.sizes().begin(), tensor.sizes().end()},
                           {tensor.strides().begin(), tensor.strides().end()});
  type.requires_grad = tensor.requires_grad();
  return type;
}

// Flattening names what cannot be an argument by raising; here that only ends the capture.
Flat flatten(Capture& capture, PyObject* nested, const std::string& name) {
  Flat flat;
  try {
    flat = python::flatten_input(nested, "args");
  } catch (...) {
    python::set_python_error(std::current_exception());
    PyErr_Clear();
    capture.stop(BreakReason::Argument, name);
  }
  if (!all_guarded(flat.tree)) capture.stop(BreakReason::Argument, name);
  return flat;
}

}  // namespace

bool all_guarded(const Tree& tree) {
  if (tree.kind == TreeKind::Constant && tree.context) {
    PyObject* constant = static_cast<PyRef*>(tree.context.get())->get();
    return is_guardable_constant(constant) || is_nn_module(constant);
  }
  return std::all_of(tree.children.begin(), tree.children.end(), all_guarded);
}

void Capture::record(PyObject* callable, const std::string& name, PyObject* args, PyObject* kwargs, PyObject* result,
                     bool always) {
  std::vector<std::pair<PyRef, std::vector<Py_ssize_t>>> found;
  std::vector<Py_ssize_t> path;
  if (!find_tensors(result, path, found))
    stop(BreakReason::Value, fmt::format("`{}` gives a {}", name, Py_TYPE(result)->tp_name));

  auto call = std::make_unique<TorchCall>();
  Flat positional = flatten(*this, args, name);
  PyRef no_keywords = kwargs ? PyRef() : python::checked(PyDict_New());
  Flat named = flatten(*this, kwargs ? kwargs : no_keywords.get(), name);
  std::vector<Value*> leaves;
  for (const Flat* flat : {&positional, &named}) {
    for (const PyRef& leaf : flat->leaves) leaves.push_back(value_of(leaf.get()));
  }
  // What gives no tensor and takes none is a constant; what takes one and gives nothing changes it.
  if (!always && found.empty() && (leaves.empty() || result != Py_None)) return;

  Node* node = graph.add_node(Op{std::nullopt, name, nullptr});
  size_t next = 0;
  for (const Tree& child : positional.tree.children) node->args.push_back(arg_of(child, leaves, next));
  for (const Tree& child : named.tree.children) node->args.push_back(arg_of(child, leaves, next));
  node->kwarg_names = named.tree.keys;
  node->source = python::user_source();
  if (python::is_tensor(result)) {
    node->returns.push_back({});
  } else if (!found.empty()) {
    node->returns.push_back({static_cast<int32_t>(found.size())});
  }
  for (auto& [tensor, way] : found) {
    const at::Tensor& made = python::unpack(tensor.get());
    if (!is_traced_tensor(made)) stop(BreakReason::Origin, fmt::format("a tensor that `{}` gives", name));
    values_[made.unsafeGetTensorImpl()] = node->add_output(type_of(made));
    held_.push_back(std::move(tensor));
    call->results.push_back(std::move(way));
  }
  call->callable = PyRef::borrow(callable);
  call->args = std::move(positional.tree);
  call->kwargs = std::move(named.tree);
  node->op.callee = python::share_across_threads(std::move(*call));
}

PyRef Capture::torch_call(PyObject* callable, const std::string& name, PyRef args, PyRef kwargs) {
  PyRef given = substitute(args.get());
  PyRef named = kwargs ? substitute(kwargs.get()) : PyRef();
  PyRef result;
  {
    Journal::Hidden hidden(journal);
    Suspended suspended(*this);
    result = python::checked(PyObject_Call(callable, given.get(), named.get()));
  }
  record(callable, name, given.get(), named.get(), result.get());
  return made(std::move(result));
}

PyRef Capture::effect_call(PyObject* callable, const std::string& name, const CallArgs& args) {
  PyRef given = args.tuple(), named = args.dict();
  Suspended suspended(*this);
  PyRef result = python::checked(PyObject_Call(callable, given.get(), named.get()));
  record(callable, name, given.get(), named.get(), result.get(), /*always=*/true);
  return result;
}

PyRef Capture::nonstrict_call(PyObject* function, const CallArgs& args) {
  PyRef own_name = python::attribute(function, "__qualname__");
  const std::string name = own_name ? std::string(python::text_of(own_name.get())) : python::spell(function);
  for (const PyRef& value : args.values) {
    if (is_nn_module(value.get())) {
      const Source* source = need_source(value.get());
      add_guard({GuardKind::Identity, source, value});
      consult_module(value.get(), source);
    }
    is_deep_constant(value.get());  // guards whatever constants there are inside
  }
  PyRef given = substitute(args.tuple().get());
  PyRef named = args.dict() ? substitute(args.dict().get()) : PyRef();
  const Flat before = flatten(*this, given.get(), name);
  const Flat named_before = named ? flatten(*this, named.get(), name) : Flat();
  ran_opaque_python = true;
  PyRef result;
  {
    Journal::Hidden hidden(journal);
    Suspended suspended(*this);
    result = python::checked(PyObject_Call(function, given.get(), named.get()));
  }
  auto unchanged = [](const Flat& a, const Flat& b) {
    if (a.tree != b.tree || a.leaves.size() != b.leaves.size()) return false;
    for (size_t i = 0; i < a.leaves.size(); ++i) {
      if (a.leaves[i].get() != b.leaves[i].get()) return false;
    }
    return true;
  };
  if (!unchanged(before, flatten(*this, given.get(), name)) ||
      (named && !unchanged(named_before, flatten(*this, named.get(), name)))) {
    stop(BreakReason::Mutation, name);
  }
  record(function, name, given.get(), named.get(), result.get());
  if (PyList_CheckExact(result.get()) || PyDict_CheckExact(result.get())) return made(std::move(result));
  return result;
}

}  // namespace firesteel::capture
