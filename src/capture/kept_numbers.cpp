// Floats of the captured code as the trace of an opaque function sees them.
#include "capture/kept_numbers.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <ATen/ScalarOps.h>
#include <fmt/format.h>

#include "aot/data_ops.h"
#include "aot/size_node.h"
#include "aot/trace.h"
#include "capture/callables.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

const Source* source_in(const OpenNumber& number) { return static_cast<const Source*>(number.source); }

PyObject* function_named(std::string_view name) {
  if (name == "float") return reinterpret_cast<PyObject*>(&PyFloat_Type);
  if (name == "min" || name == "max") return PyDict_GetItemString(PyEval_GetBuiltins(), name == "min" ? "min" : "max");
  return operator_function(std::string(name).c_str());
}

at::Tensor constant_operand(const c10::Scalar& value) {
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

PyObject* truth(bool answer) { return answer ? Py_True : Py_False; }

PyObject* make_pair(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return count == 2 ? PyTuple_Pack(2, args[0], args[1]) : nullptr;
}

// Two numbers as one value, so that a truth may pick one of them.
PyObject* pair_function() {
  static PyMethodDef method = {"pair", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&make_pair)),
                               METH_FASTCALL, nullptr};
  static PyObject* function = checked(PyCFunction_New(&method, nullptr)).release();
  return function;
}

}  // namespace

KeptNumbers::KeptNumbers(Capture& capture, std::shared_ptr<Symbols> symbols)
    : capture_(capture), symbols_(std::move(symbols)) {
  symbols_->numbers = this;
}

KeptNumbers::~KeptNumbers() {
  if (symbols_->numbers == this) symbols_->numbers = nullptr;
}

// Torch's operators may ask without the lock. A break crosses the function's frames as an error that nobody sees.
template <class F>
auto KeptNumbers::kept(F&& run) {
  const python::Gil gil;
  try {
    Suspended suspended(capture_);
    return run();
  } catch (const Break& found) {
    capture_.broken = found;
    PyErr_SetString(PyExc_RuntimeError, "the capture was given up");
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  throw py::error_already_set();
}

OpenNumber KeptNumbers::number_of(PyObject* number) const {
  return {PyFloat_AsDouble(number), capture_.is_open_number(number) ? capture_.numbers_.at(number).source : nullptr};
}

PyRef KeptNumbers::object_of(const Operand& operand) const {
  if (const auto* dim = std::get_if<Dim>(&operand)) return capture_.size_number(*dim);
  const auto& number = std::get<OpenNumber>(operand);
  if (!number.source) return checked(PyFloat_FromDouble(number.hint));
  return capture_.numbers_at_.at(source_in(number));
}

OpenNumber KeptNumbers::compute(const char* name, const Operand& first, const Operand* second) {
  return kept([&] {
    PyObject* const to_float = function_named("float");
    auto computed = [&](PyObject* function, const PyRef& a, const PyRef& b) {
      PyRef made = capture_.compute(function, a.get(), b.get());
      return made ? made : checked(PyObject_CallFunctionObjArgs(function, a.get(), b.get(), nullptr));
    };
    PyRef made = computed(function_named(name), object_of(first), second ? object_of(*second) : PyRef());
    if (PyLong_CheckExact(made.get())) made = computed(to_float, made, {});  // the lesser of an int and a float
    if (!PyFloat_CheckExact(made.get()))
      capture_.stop(BreakReason::Value, fmt::format("`{}` gives a {}", name, Py_TYPE(made.get())->tp_name));
    return number_of(made.get());
  });
}

OpenNumber KeptNumbers::compare(const char* name, const Operand& first, const Operand& second) {
  return kept([&]() -> OpenNumber {
    PyObject* function = function_named(name);
    const PyRef a = object_of(first), b = object_of(second);
    if (capture_.is_data_number(a.get()) || capture_.is_data_number(b.get())) capture_.stop_at_data("a comparison");
    const Source *left = nullptr, *right = nullptr;
    const bool open = capture_.computes(a.get(), b.get(), left, right);
    const PyRef answer = checked(PyObject_CallFunctionObjArgs(function, a.get(), b.get(), nullptr));
    return {answer.get() == Py_True ? 1.0 : 0.0, open ? capture_.sources.computed(function, left, right) : nullptr,
            /*is_truth=*/true};
  });
}

OpenNumber KeptNumbers::negate(const OpenNumber& asked) {
  return kept([&]() -> OpenNumber {
    PyObject* function = operator_function("not_");
    return {1 - asked.hint, asked.source ? capture_.sources.computed(function, source_in(asked), nullptr) : nullptr,
            /*is_truth=*/true};
  });
}

OpenNumber KeptNumbers::choose(const Operand& asked, const Operand& then_value, const Operand& else_value) {
  return kept([&]() -> OpenNumber {
    const auto* relation = std::get_if<Relation>(&asked);
    const bool answer = relation ? capture_.holds_now(*relation) : std::get<OpenNumber>(asked).hint != 0;
    const Source* by = relation ? capture_.source_of_relation(*relation) : source_in(std::get<OpenNumber>(asked));
    const PyRef yes = object_of(then_value), no = object_of(else_value);
    const PyRef& picked = answer ? yes : no;
    if (!by) return number_of(picked.get());
    auto source_of = [&](const PyRef& number) {
      if (capture_.is_data_number(number.get())) capture_.stop_at_data("a choice");
      if (const Source* known = capture_.is_open_number(number.get()) ? capture_.number_source(number.get()) : nullptr)
        return known;
      return capture_.sources.kept(number.get(), python::spell(number.get()));
    };
    const Source* both = capture_.sources.computed(pair_function(), source_of(no), source_of(yes));
    const Source* source = capture_.sources.computed(operator_function("getitem"), both, by);
    auto found = capture_.numbers_at_.find(source);
    return number_of(found != capture_.numbers_at_.end() ? found->second.get()
                                                         : capture_.new_number(picked.get(), source, true).get());
  });
}

double KeptNumbers::settle(const OpenNumber& number) {
  kept([&] { capture_.settle_at(source_in(number)); });
  return number.hint;
}

bool KeptNumbers::decide(const OpenNumber& asked) {
  const bool answer = asked.hint != 0;
  kept([&] { capture_.add_guard({GuardKind::Identity, source_in(asked), PyRef::borrow(truth(answer))}); });
  return answer;
}

at::Tensor KeptNumbers::operand(const Operand& given) {
  return kept([&]() -> at::Tensor {
    if (const auto* relation = std::get_if<Relation>(&given)) {
      if (const std::optional<bool> known = symbols_->known(*relation)) return constant_operand(*known);
      if (mentions_data(*relation)) capture_.stop_at_data("an operand");
      return capture_.traced_number_at(capture_.source_of_relation(*relation), truth(capture_.holds_now(*relation)));
    }
    const auto& number = std::get<OpenNumber>(given);
    if (!number.source) return constant_operand(number.is_truth ? c10::Scalar(number.hint != 0) : number.hint);
    if (number.is_truth) return capture_.traced_number_at(source_in(number), truth(number.hint != 0));
    const PyRef object = object_of(given);
    if (capture_.is_data_number(object.get())) return python::unpack(capture_.data_operand(object.get()).get());
    if (!capture_.is_open_number(object.get())) return constant_operand(number.hint);
    return capture_.traced_number_at(source_in(number), object.get());
  });
}

PyRef torch_symbol(Capture& capture, const char* class_name, const c10::SymNode& node) {
  // The binding that gives such an object of C++ code takes nodes of Python's alone.
  const py::object held = py::cast(node);
  Suspended suspended(capture);
  return PyRef::steal(py::module_::import("torch").attr(class_name)(held).release().ptr());
}

c10::SymNode node_behind(PyObject* symbol) {
  const py::object node = py::handle(symbol).attr("node");
  return py::isinstance<c10::SymNodeImpl>(node) ? node.cast<c10::SymNode>() : c10::SymNode();
}

namespace {

PyObject* choose_node(PyObject*, PyObject* const* args, Py_ssize_t count) {
  try {
    FS_REQUIRE(count == 3, TraceError, "a choice is made of three nodes");
    auto node = [&](size_t i) { return py::handle(args[i]).cast<c10::SymNode>(); };
    return py::cast(node(0)->sym_ite(node(1), node(2))).release().ptr();
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
    return nullptr;
  }
}

}  // namespace

PyRef choose_function() {
  static PyMethodDef method = {"_choose_node",
                               reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&choose_node)), METH_FASTCALL,
                               "One of two nodes of sizes or floats, by a node that is a truth."};
  return checked(PyCFunction_New(&method, nullptr));
}

c10::SymNode inner_node(const c10::SymNode& node) {
  const auto* around = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(node.get());
  if (!around) return node;
  const python::Gil gil;
  const py::handle held = around->getPyObj();
  return py::isinstance<c10::SymNodeImpl>(held) ? held.cast<c10::SymNode>() : node;
}

void Capture::keep_numbers() {
  if (!kept_numbers_) kept_numbers_ = std::make_shared<KeptNumbers>(*this, trace_symbols()->shared_from_this());
}

PyRef Capture::float_symbol(PyObject* number) {
  keep_numbers();
  return torch_symbol(
      *this, "SymFloat",
      SizeNode::of(trace_symbols()->shared_from_this(), SizeFloat{kept_numbers_->number_of(number), {}}));
}

PyRef Capture::adopt_float(const c10::SymFloat& number) {
  const auto* node = dynamic_cast<const SizeNode*>(number.toSymNodeImpl().get());
  const auto* content = node ? std::get_if<SizeFloat>(&node->content()) : nullptr;
  const auto* source = content ? static_cast<const Source*>(content->number.source) : nullptr;
  if (auto found = source ? numbers_at_.find(source) : numbers_at_.end(); found != numbers_at_.end())
    return found->second;
  return checked(PyFloat_FromDouble(number.guard_float(__FILE__, __LINE__)));
}

at::Tensor Capture::traced_number_at(const Source* source, PyObject* value) {
  auto [found, is_new] = traced_numbers_.try_emplace(source);
  if (is_new) {
    found->second = number_stand_in(python::number_tensor(value));
    number_sources.push_back(source);
  }
  return found->second;
}

bool Capture::holds_now(const Relation& relation) const {
  return relation.evaluate([](std::string_view name) -> std::optional<int64_t> {
    return trace_symbols()->hint(Dim::symbol(std::string(name)));
  }) == true;
}

const Source* Capture::source_of_relation(const Relation& relation) {
  if (relation.is_known()) return nullptr;
  PyObject* function = function_of(relation.kind());
  if (relation.is_comparison())
    return sources.computed(function, source_of_dim(relation.lhs()), source_of_dim(relation.rhs()));
  const Source* joined = source_of_relation(relation.operands()[0]);
  for (size_t i = 1; i < relation.operands().size(); ++i)
    joined = sources.computed(function, joined, source_of_relation(relation.operands()[i]));
  return joined;
}

}  // namespace firesteel::capture
