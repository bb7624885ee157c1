// Calls that become one node of the torch-level graph: run on stand-ins, recorded with their arguments and results.
#include <algorithm>
#include <optional>

#include <ATen/SequenceNumber.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "aot/fake_tensor.h"
#include "aot/trace.h"
#include "capture/arrays.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/marks.h"
#include "capture/overridden_calls.h"
#include "capture/python_forms.h"
#include "capture/transforms.h"
#include "capture/wrapper_tensors.h"
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

Type type_with_grad(const at::Tensor& tensor) {
  Type type = type_of(tensor);
  type.requires_grad = tensor.requires_grad();
  return type;
}

// `__radd__` for `operator.add`, `__gt__` for `operator.lt`.
std::string reflected_method(const std::string& name) {
  std::string word = name.substr(name.find('.') + 1);
  constexpr std::pair<std::string_view, const char*> kSwapped[] = {
      {"lt", "__gt__"}, {"gt", "__lt__"}, {"le", "__ge__"}, {"ge", "__le__"}, {"eq", "__eq__"}, {"ne", "__ne__"}};
  for (const auto& [own, other] : kSwapped) {
    if (word == own) return other;
  }
  if (word[0] == 'i') word.erase(0, 1);  // what assigns
  return fmt::format("__r{}__", word);
}

void settle_constants(Capture& capture, const Tree& tree) {
  if (tree.kind == TreeKind::Constant && tree.context) capture.settle(static_cast<PyRef*>(tree.context.get())->get());
  for (const Tree& child : tree.children) settle_constants(capture, child);
}

// Guarded, or a number that numpy has computed from those.
bool may_be_kept(const Capture& capture, const Tree& tree) {
  if (tree.kind == TreeKind::Constant && tree.context) {
    PyObject* constant = static_cast<PyRef*>(tree.context.get())->get();
    return all_guarded(tree) ||
           (std::string_view(Py_TYPE(constant)->tp_name) == "numpy.float64" && capture.is_made(constant));
  }
  return std::all_of(tree.children.begin(), tree.children.end(),
                     [&](const Tree& child) { return may_be_kept(capture, child); });
}

// Flattening names what cannot be an argument by raising; here that only ends the capture.
Flat flatten(Capture& capture, PyObject* nested, const std::string& name, bool guarded) {
  Flat flat;
  try {
    Suspended suspended(capture);
    std::optional<python::TakesAllTensors> all;
    if (capture.holds_wrappers) all.emplace();
    const PyRef plain = with_plain_numbers(nested);
    flat = python::flatten_input(plain ? plain.get() : nested, "args");
  } catch (...) {
    python::set_python_error(std::current_exception());
    PyErr_Clear();
    capture.stop(BreakReason::Argument, name);
  }
  if (!guarded && !may_be_kept(capture, flat.tree)) capture.stop(BreakReason::Argument, name);
  settle_constants(capture, flat.tree);
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

Tree Capture::without_open_numbers(Tree tree) const {
  if (tree.kind == TreeKind::Constant && tree.context) {
    PyObject* held = static_cast<PyRef*>(tree.context.get())->get();
    if (is_open_number(held) || truth_source(held)) return Tree::constant("any number");
  }
  for (Tree& child : tree.children) child = without_open_numbers(std::move(child));
  return tree;
}

void Capture::record(PyObject* callable, const std::string& name, PyObject* args, PyObject* kwargs, PyObject* result,
                     const RecordOptions& options) {
  if (unrecorded) return;
  // What the call takes for granted is looked at before it: its results may be others.
  if (runs_python_again) record_conditions(/*all=*/false);
  const std::optional<Flat>& flat_result = options.flat_result;
  auto call = std::make_unique<TorchCall>();
  if (!module_stacks.empty()) call->modules = module_stacks.back();
  std::vector<std::pair<PyRef, std::vector<Py_ssize_t>>> found;
  std::vector<Py_ssize_t> path;
  call->callable = PyRef::borrow(callable);
  if (!find_tensors(result, path, found)) {
    if (!flat_result) stop(BreakReason::Value, fmt::format("`{}` gives a {}", name, Py_TYPE(result)->tp_name));
    found.clear();
    for (size_t i = 0; i < flat_result->leaves.size(); ++i)
      found.emplace_back(flat_result->leaves[i], std::vector<Py_ssize_t>{static_cast<Py_ssize_t>(i)});
    call->callable = new_flat_caller(callable, without_open_numbers(flat_result->tree));
  }
  Flat positional = flatten(*this, args, name, flat_result.has_value());
  PyRef no_keywords = kwargs ? PyRef() : python::checked(PyDict_New());
  Flat named = flatten(*this, kwargs ? kwargs : no_keywords.get(), name, flat_result.has_value());
  std::vector<Value*> leaves;
  for (const Flat* flat : {&positional, &named}) {
    for (const PyRef& leaf : flat->leaves) leaves.push_back(value_of(leaf.get()));
  }
  // What gives no tensor and takes none is a constant; what takes one and gives nothing changes it.
  if (!options.always && found.empty() && (leaves.empty() || result != Py_None)) return;

  Node* node = graph.add_node(Op{std::nullopt, name, nullptr});
  size_t next = 0;
  for (const Tree& child : positional.tree.children) node->args.push_back(arg_of(child, leaves, next));
  for (const Tree& child : named.tree.children) node->args.push_back(arg_of(child, leaves, next));
  node->kwarg_names = named.tree.keys;
  node->source = python::user_source();
  if (keeps_stacks) call->stack = python::whole_stack();
  tell_story(*node, options);
  if (python::is_tensor(result)) {
    node->returns.push_back({});
  } else if (!found.empty()) {
    node->returns.push_back({static_cast<int32_t>(found.size())});
  }
  for (auto& [tensor, way] : found) {
    const at::Tensor& made = python::unpack(tensor.get());
    if (!is_traced_tensor(without_transforms(made)) && !(holds_wrappers && is_wrapper_stand_in(*this, tensor.get())))
      stop(BreakReason::Origin, fmt::format("a tensor that `{}` gives", name));
    Value* output = node->add_output(type_with_grad(made));
    // What a method changes, or a function writes to, stays known by what it was.
    Value*& known = values_[made.unsafeGetTensorImpl()];
    const bool is_given = std::find(leaves.begin(), leaves.end(), known) != leaves.end();
    if (!is_given || !(name.ends_with('_') || std::count(named.tree.keys.begin(), named.tree.keys.end(), "out")))
      known = output;
    note_data_sizes(tensor);
    if (!is_given || name.ends_with("requires_grad_")) {
      if (made.requires_grad() && made.is_leaf()) this->made(tensor);
    }
    held_.push_back(std::move(tensor));
    call->results.push_back(std::move(way));
  }
  call->args = std::move(positional.tree);
  call->kwargs = std::move(named.tree);
  node->op.callee = python::share_across_threads(std::move(*call));
  if (marks_calls) call_marks.push_back({at::sequence_number::peek(), clock, break_here(BreakReason::Trace, name)});
}

namespace {

// `torch.div(6, 4)`: torch computes it where nothing is traced.
bool is_made_of_numbers(PyObject* args, PyObject* kwargs, PyObject* result) {
  if (!python::is_exact_tensor(result) || PyTuple_GET_SIZE(args) == 0) return false;
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  if (!PyLong_CheckExact(first) && !PyFloat_CheckExact(first)) return false;
  const at::Tensor& made = python::unpack(result);
  return !is_traced_tensor(made) && made.dim() == 0 && !holds_tensor(args) && !(kwargs && holds_tensor(kwargs));
}

}  // namespace

PyRef Capture::record_number(PyObject* callable, const std::string& name, const PyRef& args, ValueKind kind) {
  auto call = std::make_unique<TorchCall>();
  call->callable = PyRef::borrow(callable);
  Flat positional = flatten(*this, args.get(), name, false);
  Flat named = flatten(*this, python::checked(PyDict_New()).get(), name, false);
  std::vector<Value*> leaves;
  for (const PyRef& leaf : positional.leaves) leaves.push_back(value_of(leaf.get()));
  Node* node = graph.add_node(Op{std::nullopt, name, nullptr});
  size_t next = 0;
  for (const Tree& child : positional.tree.children) node->args.push_back(arg_of(child, leaves, next));
  node->source = python::user_source();
  if (keeps_stacks) call->stack = python::whole_stack();
  tell_story(*node, {});
  PyRef leaf;
  if (kind != ValueKind::None) {
    node->returns.push_back({});
    leaf = python::wrap(at::empty({}, at::TensorOptions().device(at::kMeta)));
    values_[python::unpack(leaf.get()).unsafeGetTensorImpl()] = node->add_output(Type::scalar(kind));
    call->results.emplace_back();
    held_.push_back(leaf);
  }
  call->args = std::move(positional.tree);
  call->kwargs = std::move(named.tree);
  node->op.callee = python::share_across_threads(std::move(*call));
  return leaf;
}

void Capture::tell_story(const Node& node, const RecordOptions& options) {
  const size_t index = graph.nodes.size() - 1;
  story.modules.resize(index);
  story.sources.resize(index);
  story.sources.push_back(node.source);
  story.modules.push_back(modules.empty() ? std::string() : modules.back());
  if (options.opaque) story.opaque.push_back(index);
  if (node.source) story.calls[node.source] = index;
  if (const python::OwnSources* own = python::OwnSources::current()) {
    for (const SourceRef& source : own->copies()) story.calls[source] = index;
  }
}

PyRef Capture::torch_call(PyObject* callable, const std::string& name, const PyRef& args, const PyRef& kwargs,
                          bool follows) {
  const python::OwnSources own_sources;
  // `apply` of a class of autograd's is called as a function that is followed.
  note_truths(args.get());
  note_truths(kwargs.get());
  closed(args);
  closed(kwargs);
  if (mark_of(callable).mark == Mark::Disallowed) stop(BreakReason::Disallowed, name);
  if (is_overridden(*this, args.get(), kwargs.get())) {
    if (follows) stop(BreakReason::Argument, name);
    PyRef given, named;
    {
      const KeepSymbols keep(keeps_symbols_);
      given = substitute(args.get());
      named = kwargs ? substitute(kwargs.get()) : PyRef();
    }
    return call_overridden(*this, callable, name, given, named);
  }
  PyRef with_number = with_number_input(name, args.get(), kwargs.get());
  if (PyRef result = with_number ? PyRef() : number_form(callable, name, args.get(), kwargs.get())) return result;
  if (!with_number) settle_operands(name, args.get(), kwargs.get());
  PyRef given, named;
  {
    const KeepSymbols keep(keeps_symbols_);
    given = substitute(with_number ? with_number.get() : args.get());
    named = kwargs ? substitute(kwargs.get()) : PyRef();
  }
  // Torch takes a number that changes as a size of the trace; in the graph it is an input.
  PyRef recorded_args = given, recorded_kwargs = named;
  if (holds_symbol(given.get()) || (named && holds_symbol(named.get()))) {
    recorded_args = with_symbols(given.get(), SymbolForm::Leaf);
    recorded_kwargs = named ? with_symbols(named.get(), SymbolForm::Leaf) : PyRef();
    given = with_symbols(given.get(), SymbolForm::SymInt);
    named = named ? with_symbols(named.get(), SymbolForm::SymInt) : PyRef();
  }
  settle_deep(given.get());
  settle_deep(named.get());
  PyRef result;
  try {
    std::optional<Journal::Hidden> hidden;
    std::optional<Suspended> suspended;
    std::optional<Unrecorded> below;
    if (follows) {
      below.emplace(*this);
    } else {
      hidden.emplace(journal);
      suspended.emplace(*this);
    }
    if (with_number && is_number(PyTuple_GET_ITEM(args.get(), 0)) && !name.ends_with("sub")) {
      // Asked first, a number leaves the answer to the tensor; which, for a difference, asks for that of both.
      result = python::checked(PyObject_CallMethod(PyTuple_GET_ITEM(given.get(), 1), reflected_method(name).c_str(),
                                                   "O", PyTuple_GET_ITEM(given.get(), 0)));
    } else {
      result = python::checked(PyObject_Call(callable, given.get(), named.get()));
    }
  } catch (...) {
    stop_for_made_up_sizes(name);
    throw;
  }
  if (is_made_of_numbers(given.get(), named.get(), result.get())) {
    // With a tensor in place of the first number it is one of the trace, whose value is known.
    PyRef torch = python::checked(PyImport_ImportModule("torch"));
    PyRef maker = python::checked(PyObject_GetAttrString(torch.get(), "tensor"));
    PyRef number = python::checked(PyTuple_Pack(1, PyTuple_GET_ITEM(given.get(), 0)));
    PyRef again = python::checked(PySequence_List(given.get()));
    PyList_SetItem(again.get(), 0, torch_call(maker.get(), "torch.tensor", number).release());
    PyRef same = torch_call(callable, name, python::checked(PyList_AsTuple(again.get())), named);
    if (python::unpack(same.get()).scalar_type() == python::unpack(result.get()).scalar_type()) return same;
    stop(BreakReason::Origin, fmt::format("a tensor that `{}` gives", name));
  }
  result = adopt_sizes(std::move(result));
  record(callable, name, recorded_args.get(), recorded_kwargs.get(), result.get());
  return made(std::move(result));
}

void Capture::drop_nodes() {
  graph.nodes.clear();
  mode_switches = 0;
  story = {};
}

PyRef Capture::effect_call(PyObject* callable, const std::string& name, const CallArgs& args) {
  PyRef given = args.tuple(), named = args.dict();
  settle_deep(given.get());
  settle_deep(named.get());
  Suspended suspended(*this);
  PyRef result = python::checked(PyObject_Call(callable, given.get(), named.get()));
  if (!unrecorded) ++mode_switches;
  record(callable, name, given.get(), named.get(), result.get(), {.always = true});
  return result;
}

}  // namespace firesteel::capture
