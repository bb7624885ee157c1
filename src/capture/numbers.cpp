// Numbers from outside: passed on as they are, guarded by value only where one is looked at, and inputs of the compiled
// code where they change from call to call.
//
// Each gets an object of its own (not one of CPython's shared small ints), so that it carries a source like any other
// object. Whoever is about to look at its value settles it first. A number that is known to change is computed with
// instead: what comes out has a source that computes it again, and a comparison is guarded by its answer.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "aot/trace.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/cpython/frame_shim.h"
#include "capture/tensor_text.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

// Long chains cost more at each call than they save.
constexpr size_t kMostComputed = 256;

bool is_nan(PyObject* number) { return PyFloat_CheckExact(number) && std::isnan(PyFloat_AS_DOUBLE(number)); }

PyRef private_copy(PyObject* number) {
  return checked(PyFloat_CheckExact(number) ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(number)) : fs_private_int(number));
}

}  // namespace

bool is_number(PyObject* object) { return PyLong_CheckExact(object) || PyFloat_CheckExact(object); }

void Capture::expect_changes(const Source* source) { changing_.insert(source); }

PyRef Capture::new_number(PyObject* value, const Source* source, bool changes, std::optional<Dim> dim) {
  PyRef number = private_copy(value);
  if (!dim) add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value)))});
  provenance_.emplace(number.get(), source);
  held_.push_back(number);
  numbers_.emplace(number.get(), Number{source, changes, false, std::move(dim)});
  numbers_at_.emplace(source, number);
  ++open_numbers_;
  return number;
}

PyRef Capture::admit_value(PyObject* value, const Source* source) {
  // A nan is not equal to itself, and an object of its own would show it.
  if (concrete || settles_at_once_ || !is_number(value) || is_nan(value)) return admit(value, source);
  if (numbers_.count(value)) return PyRef::borrow(value);
  if (auto found = numbers_at_.find(source); found != numbers_at_.end()) return found->second;
  return new_number(value, source, changing_.count(source) != 0);
}

bool Capture::is_open_number(PyObject* object) const {
  if (!open_numbers_ || !is_number(object)) return false;
  auto found = numbers_.find(object);
  return found != numbers_.end() && !found->second.settled;
}

void Capture::settle_at(const Source* source) {
  auto found = numbers_at_.find(source);
  if (found == numbers_at_.end()) return;  // a constant of the code
  PyObject* object = found->second.get();
  Number& number = numbers_.at(object);
  if (number.settled) return;
  if (number.from_data) {
    if (!trace_symbols()) return;  // the capture is over
    stop_at_data("the value");
  }
  number.settled = true;
  --open_numbers_;
  if (number.dim && trace_symbols()) trace_symbols()->specialise(*number.dim);
  if (source->kind == AccessKind::Size) return;  // the tensor's own guard, or the trace's
  if (source->kind == AccessKind::Computed) {
    settle_at(source->parent);
    if (source->second) settle_at(source->second);
  } else {
    add_guard({GuardKind::Constant, source, PyRef::borrow(object)});
  }
}

void Capture::settle(PyObject* object) {
  if (is_tensor_text(object)) stop_at_tensor_text(*this, object);
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) settle(part);
  } else if (PyTuple_Check(object) && python::is_torch_constant(object)) {
    // A torch.Size counts as one constant, whatever it was made of.
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (is_number(PyTuple_GET_ITEM(object, i))) settle(PyTuple_GET_ITEM(object, i));
    }
  } else if (is_open_number(object) && !(keeps_symbols_ && may_be_symbol(object))) {
    settle_at(numbers_.at(object).source);
  }
}

void Capture::settle_deep(PyObject* value) {
  if (!open_numbers_ || concrete || !value) return;
  std::unordered_set<PyObject*> seen;
  std::vector<PyObject*> open{value};
  while (!open.empty()) {
    PyObject* next = open.back();
    open.pop_back();
    settle(next);
    const bool sequence = PyList_Check(next) || PyTuple_Check(next);
    if ((!sequence && !PyDict_Check(next)) || !seen.insert(next).second) continue;
    if (sequence) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(next); ++i) open.push_back(PySequence_Fast_GET_ITEM(next, i));
      continue;
    }
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(next, &position, nullptr, &item)) open.push_back(item);
  }
}

void Capture::settle_all() {
  settles_at_once_ = true;
  std::vector<const Source*> all;
  for (const auto& [object, number] : numbers_) all.push_back(number.source);
  for (const Source* source : all) settle_at(source);
}

void Capture::settle_all_but_sizes() {
  std::vector<const Source*> all;
  for (const auto& [object, number] : numbers_) {
    if (!number.dim) all.push_back(number.source);
  }
  for (const Source* source : all) settle_at(source);
}

void Capture::close_numbers() {
  settles_at_once_ = true;
  settle_all_but_sizes();
}

const Source* Capture::number_source(PyObject* object) const {
  auto found = numbers_.find(object);
  if (found == numbers_.end()) return nullptr;
  if (found->second.from_data) return nullptr;
  const Source* source = found->second.source;
  return found->second.settled && source->kind == AccessKind::Computed ? nullptr : source;
}

// Where all operands are numbers and one of them changes: the sources of both. Else the others are settled.
bool Capture::computes(PyObject* first, PyObject* second, const Source*& a, const Source*& b) {
  if (!open_numbers_ || !is_number(first) || (second && !is_number(second))) return false;
  auto changes = [&](PyObject* number) { return is_open_number(number) && numbers_.at(number).changes; };
  if (!changes(first) && !(second && changes(second))) return false;
  if (computed_ >= kMostComputed) return false;
  auto source = [&](PyObject* number) {
    if (changes(number)) return numbers_.at(number).source;
    settle(number);
    return sources.pinned(number, python::spell(number));
  };
  a = source(first);
  b = second ? source(second) : nullptr;
  return true;
}

PyRef Capture::compute(PyObject* function, PyObject* first, PyObject* second) {
  const Source *a = nullptr, *b = nullptr;
  if (concrete || !open_numbers_) return {};
  if (is_data_number(first) || (second && is_data_number(second))) return compute_data(function, first, second);
  if (std::optional<PyRef> size = compute_size(function, first, second)) return *size;
  if (!computes(first, second, a, b)) return {};
  PyRef result = PyRef::steal(PyObject_CallFunctionObjArgs(function, first, second, nullptr));
  if (!result || !is_number(result.get()) || is_nan(result.get())) {
    settle(first);
    if (second) settle(second);
    if (!result) python::throw_python_error();
    return result;
  }
  ++computed_;
  const Source* source = sources.computed(function, a, b);
  if (auto found = numbers_at_.find(source); found != numbers_at_.end()) return found->second;
  return new_number(result.get(), source, true);
}

std::optional<bool> Capture::decide(PyObject* function, PyObject* first, PyObject* second) {
  const Source *a = nullptr, *b = nullptr;
  if (concrete || !open_numbers_) return std::nullopt;
  if (std::optional<bool> answer = decide_size(function, first, second)) return answer;
  if (is_data_number(first) || (second && is_data_number(second))) stop_at_data("a branch on a comparison");
  if (!computes(first, second, a, b)) return std::nullopt;
  PyRef answer = checked(PyObject_CallFunctionObjArgs(function, first, second, nullptr));
  add_guard({GuardKind::Identity, sources.computed(function, a, b), answer});
  return answer.get() == Py_True;
}

PyRef Capture::with_changing_items(PyObject* tuple) {
  const Source* source = changing_.empty() || concrete || !PyTuple_CheckExact(tuple) ? nullptr : source_of(tuple);
  if (!source) return {};
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  bool changes = false;
  for (Py_ssize_t i = 0; i < size; ++i) changes = changes || changing_.count(sources.item(source, i));
  if (!changes) return {};
  guard_length(tuple);
  PyRef copy = checked(PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    PyTuple_SET_ITEM(copy.get(), i, admit_value(item, sources.item(source, i)).release());
  }
  return made(std::move(copy));
}

PyRef Capture::with_changing_parts(PyObject* constant, const Source* source) {
  if (changing_.empty() || concrete) return {};
  std::vector<std::pair<PyObject*, const Source*>> parts;
  if (PySlice_Check(constant)) {
    auto* slice = reinterpret_cast<PySliceObject*>(constant);
    PyObject* const values[] = {slice->start, slice->stop, slice->step};
    for (size_t i = 0; i < std::size(values); ++i)
      parts.emplace_back(values[i], sources.step(source, AccessKind::Member, guards::slice_member(i)));
  } else if (std::string_view(Py_TYPE(constant)->tp_name) == "torch.Size") {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
      parts.emplace_back(PyTuple_GET_ITEM(constant, i), sources.item(source, static_cast<int64_t>(i)));
  }
  const bool changes =
      std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return changing_.count(part.second) != 0; });
  if (!changes) return {};
  add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(constant)))});
  std::vector<PyRef> read;
  for (const auto& [value, at] : parts) read.push_back(admit_value(value, at));
  if (PySlice_Check(constant)) return made(checked(PySlice_New(read[0].get(), read[1].get(), read[2].get())));
  Guard guard{GuardKind::Length, source};
  guard.number = static_cast<int64_t>(read.size());
  add_guard(std::move(guard));
  PyRef items = checked(PyTuple_New(static_cast<Py_ssize_t>(read.size())));
  for (size_t i = 0; i < read.size(); ++i) PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), read[i].release());
  return made(checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(constant)), items.get())));
}

PyRef Capture::original(PyObject* object) const {
  auto found = numbers_.find(object);
  if (found == numbers_.end() || !PyLong_CheckExact(object)) return PyRef::borrow(object);
  // Small ints are shared: made anew from its value it is the one that everybody has.
  return checked(PyNumber_Add(object, checked(PyLong_FromLong(0)).get()));
}

// ---- numbers as operands of torch's functions

namespace {

// Functions for which torch makes a tensor of a number before it does anything else: a tensor in its place gives the
// same. For some that holds for floating point alone: comparisons, which else report an overflow, and remainders, which
// report a division by zero.
enum class Takes { No, Any, Floats };
Takes takes_number(const std::string& name) {
  static const auto* table = [] {
    auto* made = new std::unordered_map<std::string, Takes>;
    for (const char* word : {"add", "sub", "mul", "div", "truediv", "true_divide", "multiply", "subtract", "divide"}) {
      for (const char* form : {"operator.{}", "operator.i{}", "torch.{}", "torch.Tensor.{}", "torch.Tensor.{}_"})
        made->emplace(fmt::format(fmt::runtime(form), word), Takes::Any);
    }
    for (const char* word : {"mod", "remainder", "fmod", "lt", "le", "eq", "ne", "gt", "ge"}) {
      for (const char* form : {"operator.{}", "operator.i{}", "torch.{}", "torch.Tensor.{}"})
        made->emplace(fmt::format(fmt::runtime(form), word), Takes::Floats);
    }
    return made;
  }();
  auto found = table->find(name);
  return found == table->end() ? Takes::No : found->second;
}

}  // namespace

PyRef Capture::number_input(PyObject* number) {
  if (is_data_number(number)) return data_operand(number);
  const Source* source = numbers_.at(number).source;
  auto found = number_inputs_.find(source);
  if (found != number_inputs_.end()) return found->second;
  const bool is_float = PyFloat_CheckExact(number);
  PyRef fake = python::wrap(traced_number_at(source, number));
  python::check(PyObject_SetAttrString(fake.get(), "_is_number", Py_True) == 0);
  Value* value =
      graph.add_input(Type::scalar(is_float ? ValueKind::Float : ValueKind::Int), InputRole::Argument, "number");
  values_[python::unpack(fake.get()).unsafeGetTensorImpl()] = value;
  input_sources.push_back(source);
  number_inputs_.emplace(source, fake);
  return fake;
}

PyRef Capture::with_truth_input(const std::string& name, PyObject* args, PyObject* kwargs) {
  const bool plain = !kwargs || PyDict_GET_SIZE(kwargs) == 0;
  for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(args); ++place) {
    const std::optional<Relation> truth = open_relation(PyTuple_GET_ITEM(args, place));
    if (!truth || trace_symbols()->known(*truth)) continue;
    const bool takes = plain && PyTuple_GET_SIZE(args) == 2 && takes_number(name) == Takes::Any;
    if (!takes || (place == 0 && !name.starts_with("operator."))) stop_at_data(fmt::format("`{}`", name));
    PyObject* tensor = PyTuple_GET_ITEM(args, 1 - place);
    if (!python::is_tensor(tensor)) stop_at_data(fmt::format("`{}`", name));
    PyRef input = truth_operand(*truth);
    return checked(place == 0 ? PyTuple_Pack(2, input.get(), tensor) : PyTuple_Pack(2, tensor, input.get()));
  }
  return {};
}

PyRef Capture::with_number_input(const std::string& name, PyObject* args, PyObject* kwargs) {
  const bool plain = !kwargs || PyDict_GET_SIZE(kwargs) == 0;
  if (PyRef given = with_truth_input(name, args, kwargs)) return given;
  if (!open_numbers_ || !plain || PyTuple_GET_SIZE(args) != 2) return {};
  const Takes takes = takes_number(name);
  if (takes == Takes::No) return {};
  for (Py_ssize_t place : {1, 0}) {
    PyObject *number = PyTuple_GET_ITEM(args, place), *tensor = PyTuple_GET_ITEM(args, 1 - place);
    if (!is_open_number(number) || !numbers_.at(number).changes || !python::is_tensor(tensor)) continue;
    if (place == 0 && !name.starts_with("operator.")) return {};
    if (takes == Takes::Floats && !python::unpack(tensor).is_floating_point()) return {};
    if (!python::number_tensor(number).defined()) return {};
    PyRef input = number_input(number);
    return checked(place == 0 ? PyTuple_Pack(2, input.get(), tensor) : PyTuple_Pack(2, tensor, input.get()));
  }
  return {};
}

}  // namespace firesteel::capture
