// Sizes that change where they enter and leave a call: `torch.SymInt` to torch and to nonstrict functions, inputs of
// the graph in its nodes, numbers again to the captured code.
#include <unordered_set>

#include <ATen/ops/empty.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include "aot/trace.h"
#include "capture/capture.h"
#include "capture/kept_numbers.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

bool is_torch_size(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "torch.Size"; }

// Sizes 0 and 1 have graphs of their own, as those of tensors have.
bool fits_size(PyObject* number) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  return !overflow && value >= 2 && value <= int64_t{1} << 40;
}

// Functions of torch that take a size, a place or a count as a plain number. Others take a number to compute with, and
// do not know what to do with a size of a trace there.
bool takes_sizes(std::string_view name) {
  // clang-format off
  static const auto* words = new std::unordered_set<std::string_view>{
      "view", "reshape", "expand", "repeat", "tile", "zeros", "ones", "empty", "full", "rand", "randn", "randint",
      "randperm", "arange", "eye", "new_zeros", "new_ones", "new_empty", "new_full", "narrow", "split", "getitem",
      "select", "index_select", "roll", "topk", "unflatten", "broadcast_to", "as_strided", "tensor_split", "unfold",
      "interpolate", "pad", "swapaxes", "new_empty_strided", "empty_strided", "slice_scatter", "select_scatter",
      "repeat_interleave", "one_hot", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "permute", "tril", "triu",
      "linspace", "setitem", "split_with_sizes", "mod", "floordiv", "remainder", "floor_divide", "lt", "le", "gt",
      "ge", "eq", "ne"};
  // clang-format on
  const size_t dot = name.rfind('.');
  return words->count(dot == std::string_view::npos ? name : name.substr(dot + 1)) != 0;
}

template <class F>
PyRef map_tuple(PyObject* tuple, F&& map) {
  PyRef items = checked(PyTuple_New(PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    PyTuple_SET_ITEM(items.get(), i, map(PyTuple_GET_ITEM(tuple, i)).release());
  return items;
}

}  // namespace

bool Capture::may_be_symbol(PyObject* value) const {
  if (truths_.count(value)) return true;
  if (!is_open_number(value)) return false;
  const Number& number = numbers_.at(value);
  if (PyFloat_CheckExact(value)) return keeps_floats_ && number.changes;
  return number.dim || (number.changes && fits_size(value));
}

void Capture::make_symbol(PyObject* value) {
  Number& number = numbers_.at(value);
  if (number.dim) return;
  number_sources.push_back(number.source);
  number.dim = number_symbol(PyLong_AsLongLong(value), 2);
}

bool Capture::holds_symbol(PyObject* value) const {
  if (!open_numbers_ && truths_.empty()) return false;
  if (may_be_symbol(value)) return true;
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return holds_symbol(slice->start) || holds_symbol(slice->stop) || holds_symbol(slice->step);
  }
  if (PyTuple_Check(value) || PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (holds_symbol(PySequence_Fast_GET_ITEM(value, i))) return true;
    }
  }
  if (!PyDict_CheckExact(value)) return false;
  Py_ssize_t position = 0;
  PyObject* item = nullptr;
  while (PyDict_Next(value, &position, nullptr, &item)) {
    if (holds_symbol(item)) return true;
  }
  return false;
}

void Capture::settle_operands(const std::string& name, PyObject* args, PyObject* kwargs) {
  if (!open_numbers_ || takes_sizes(name)) return;
  // One that data gives cannot be settled: torch gets it as a size, and may well take it.
  auto settle_known = [&](PyObject* value) {
    if (!is_data_number(value) || !numbers_.at(value).dim) settle(value);
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) settle_known(PyTuple_GET_ITEM(args, i));
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  while (kwargs && PyDict_Next(kwargs, &position, nullptr, &value)) settle_known(value);
}

PyRef Capture::symbol_leaf(PyObject* number) {
  const Number& known = numbers_.at(number);
  if (known.plain) return known.plain;
  if (known.from_data) return leaf_of(*known.dim);
  return source_leaf(known.source, PyFloat_CheckExact(number) ? ValueKind::Float : ValueKind::Int);
}

PyRef Capture::source_leaf(const Source* source, ValueKind kind) {
  auto found = symbol_leaves_.find(source);
  if (found != symbol_leaves_.end()) return found->second;
  PyRef leaf = python::wrap(at::empty({}, at::TensorOptions().device(at::kMeta)));
  values_[python::unpack(leaf.get()).unsafeGetTensorImpl()] =
      graph.add_input(Type::scalar(kind), InputRole::Argument, kind == ValueKind::Int ? "size" : "number");
  input_sources.push_back(source);
  held_.push_back(leaf);
  symbol_leaves_.emplace(source, leaf);
  return leaf;
}

PyRef Capture::with_symbols(PyObject* value, SymbolForm form) {
  Suspended suspended(*this);  // classes that are registered come apart by Python functions
  auto symbol = [&](PyObject* number) {
    if (!may_be_symbol(number)) return PyRef::borrow(number);
    if (const Source* answer = truth_source(number))
      return form == SymbolForm::Leaf ? source_leaf(answer, ValueKind::Bool) : PyRef::borrow(number);
    const bool is_float = PyFloat_CheckExact(number);
    if (!is_float) make_symbol(number);
    if (form == SymbolForm::Leaf) return symbol_leaf(number);
    if (is_float) return float_symbol(number);
    return PyRef::steal(py::cast(trace_symbols()->sym_int(*numbers_.at(number).dim)).release().ptr());
  };
  return python::map_parts(value, [&](PyObject* part) {
    if (!holds_symbol(part)) return PyRef::borrow(part);
    if (PySlice_Check(part)) {
      auto* slice = reinterpret_cast<PySliceObject*>(part);
      return checked(PySlice_New(symbol(slice->start).get(), symbol(slice->stop).get(), symbol(slice->step).get()));
    }
    if (!PyTuple_Check(part)) return symbol(part);
    if (!is_torch_size(part)) return PyRef::borrow(part);
    PyObject* type = form == SymbolForm::Leaf ? python::open_size_type() : reinterpret_cast<PyObject*>(Py_TYPE(part));
    return checked(PyObject_CallOneArg(type, map_tuple(part, symbol).get()));
  });
}

namespace {

// Nothing but tuples, lists and dicts around what is no container: open truths may lie there.
bool is_plain_nest(PyObject* value) {
  bool plain = true;
  auto look = [&](PyObject* item) { plain = plain && is_plain_nest(item); };
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) look(PySequence_Fast_GET_ITEM(value, i));
  } else if (PyDict_CheckExact(value)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, nullptr, &item)) look(item);
  } else {
    plain = is_torch_size(value) || !python::kind_of(value);
  }
  return plain;
}

}  // namespace

PyRef Capture::adopt_sizes(PyRef value, bool keep_truths) {
  if (concrete || !value || !trace_symbols() || trace_symbols()->empty()) return value;
  keep_truths = keep_truths && is_plain_nest(value.get());
  auto adopt = [&](PyObject* part) {
    const py::handle handle(part);
    if (torch::is_symint(handle)) return size_number(firesteel::dim_of(handle.cast<c10::SymInt>()));
    const bool is_float = torch::is_symfloat(handle), is_truth = torch::is_symbool(handle);
    const c10::SymNode node = is_float || is_truth ? node_behind(part) : c10::SymNode();
    if (node && is_float) return adopt_float(c10::SymFloat(node));
    if (node && keep_truths) return adopt_truth(c10::SymBool(node));
    if (is_float) return checked(PyFloat_FromDouble(handle.cast<c10::SymFloat>().guard_float(__FILE__, __LINE__)));
    if (is_truth) return PyRef::borrow(handle.cast<c10::SymBool>().guard_bool(__FILE__, __LINE__) ? Py_True : Py_False);
    return PyRef::borrow(part);
  };
  Suspended suspended(*this);
  PyRef adopted = python::map_parts(value.get(), [&](PyObject* part) {
    if (!is_torch_size(part)) return adopt(part);
    PyRef items = map_tuple(part, adopt);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(part); ++i) {
      if (PyTuple_GET_ITEM(items.get(), i) != PyTuple_GET_ITEM(part, i))
        return made(checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(part)), items.get())));
    }
    return PyRef::borrow(part);
  });
  note_truths(adopted.get(), /*deep=*/true);
  return adopted;
}

}  // namespace firesteel::capture
