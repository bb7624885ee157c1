// Numbers that the graph computes: what `.item()` gives, and sizes that depend on data.
//
// In the captured code such a number is an object of its own with a value that is made up. Whoever would look at the
// value ends the capture (settle()); what is computed from it is computed again by the graph at each call. An int is a
// symbol of the trace, as other sizes are (graph/data_symbols.h); a float is a tensor without dimensions.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>

#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include "aot/data_ops.h"
#include "aot/fake_tensor.h"
#include "aot/trace.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/cpython/frame_shim.h"
#include "capture/kept_numbers.h"
#include "graph/data_symbols.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr double kMadeUp = 1.5;
constexpr int64_t kLongestList = 64;

PyObject* tensor_method(const char* name) {
  static auto* known = new std::unordered_map<std::string_view, PyObject*>;
  PyObject*& method = (*known)[name];
  if (!method) {
    PyRef type = checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "Tensor"));
    method = checked(PyObject_GetAttrString(type.get(), name)).release();
  }
  return method;
}

std::string name_of(PyObject* function) {
  PyRef name = python::attribute(function, "__name__"), module = python::attribute(function, "__module__");
  const bool is_operator = python::text_of(module.get()) == "_operator";
  return fmt::format("{}{}", is_operator ? "operator." : "", python::text_of(name.get()));
}

// Python's arithmetic on floats, as tensors of doubles do it.
struct FloatRow {
  const char* name;
  at::Tensor (*run)(const at::Tensor&, const at::Tensor&);
};
constexpr FloatRow kFloatRows[] = {
    {"add", [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }},
    {"sub", [](const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }},
    {"mul", [](const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); }},
    {"truediv", [](const at::Tensor& a, const at::Tensor& b) { return at::div(a, traced_divisor(b)); }},
    {"neg", [](const at::Tensor& a, const at::Tensor&) { return at::neg(a); }},
};

const FloatRow* float_row(PyObject* function) {
  for (const FloatRow& row : kFloatRows) {
    if (function == operator_function(row.name)) return &row;
    const std::string assigning = fmt::format("i{}", row.name);
    if (std::string_view(row.name) != "neg" && name_of(function) == "operator." + assigning) return &row;
  }
  return nullptr;
}

// Of one that is treated as if data gave it: mark_unbacked().
bool is_size_of_argument(const Dim& dim) {
  const std::vector<SymbolOrigin>& origins = trace_symbols()->origins();
  return is_data_symbol(dim) && std::any_of(origins.begin(), origins.end(), [&](const SymbolOrigin& origin) {
           return origin.name == dim.expr()->name && !origin.from_data();
         });
}

PyObject* check_function() {
  static PyObject* function =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("firesteel._data_checks")).get(), "check"))
          .release();
  return function;
}

}  // namespace

bool Capture::is_data_number(PyObject* object) const {
  auto found = numbers_.find(object);
  return found != numbers_.end() && found->second.from_data;
}

void Capture::stop_at_data(const std::string& what) {
  stop(BreakReason::DataDependent,
       fmt::format("{} of a number that data gives; torch._check() may say what always holds of it", what));
}

void Capture::stop_for_made_up_sizes(const std::string& name) {
  if (!trace_symbols() || !trace_symbols()->any_data()) return;
  try {
    throw;
  } catch (const Break&) {
    return;
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  stop_for_own_error();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), value_ref = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  PyRef text = PyRef::steal(PyObject_Str(value));
  if (!text) PyErr_Clear();
  stop(BreakReason::DataDependent,
       fmt::format("`{}` with sizes that data gives: {}", name, python::text_of(text.get())));
}

PyRef Capture::new_data_number(PyObject* made_up, std::optional<Dim> dim, PyRef plain) {
  PyRef number =
      checked(PyFloat_CheckExact(made_up) ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(made_up)) : fs_private_int(made_up));
  const Source* source = sources.kept(number.get(), dim ? dim->str() : "a number that data gives");
  provenance_.emplace(number.get(), source);
  held_.push_back(number);
  numbers_.emplace(number.get(), Number{source, true, false, std::move(dim), true, std::move(plain)});
  numbers_at_.emplace(source, number);
  ++open_numbers_;
  return number;
}

PyRef Capture::data_size(const Dim& dim) {
  PyRef& known = data_sizes_[dim.str()];
  if (!known) {
    PyRef made_up = checked(PyLong_FromLongLong(trace_symbols()->hint(dim)));
    known = new_data_number(made_up.get(), dim, {});
  }
  return known;
}

PyRef Capture::new_data_float(PyRef plain, const PyRef& leaf) {
  values_[python::unpack(plain.get()).unsafeGetTensorImpl()] = value_of(leaf.get());
  held_.push_back(plain);
  return new_data_number(checked(PyFloat_FromDouble(kMadeUp)).get(), std::nullopt, std::move(plain));
}

PyRef Capture::data_item(PyObject* tensor) {
  if (concrete || !takes_data_numbers || !python::is_tensor(tensor)) return {};
  PyRef given = substitute(tensor);
  const at::Tensor& read = python::unpack(given.get());
  if (!is_traced_tensor(read)) return {};
  for (const Dim& size : type_of(read).sizes) {
    if (size != Dim(1)) return {};
  }
  const at::ScalarType type = read.scalar_type();
  const bool is_float = c10::isFloatingType(type);
  if (!is_float && !c10::isIntegralType(type, /*includeBool=*/true)) return {};
  auto node = [&](ValueKind kind) {
    return record_number(tensor_method("item"), "torch.Tensor.item", checked(PyTuple_Pack(1, given.get())), kind);
  };
  if (is_float) {
    PyRef plain = python::wrap(traced_number(read, /*as_number=*/false));
    return new_data_float(std::move(plain), node(ValueKind::Float));
  }
  const bool is_truth = type == at::kBool;
  const Dim dim = firesteel::dim_of((is_truth ? read.to(at::kLong) : read).item().toSymInt());
  if (is_data_symbol(dim) && !dim_leaves_.count(dim.str()))
    dim_leaves_.emplace(dim.str(), node(is_truth ? ValueKind::Bool : ValueKind::Int));
  return is_truth ? new_truth(Relation::ne(dim, 0)) : size_number(dim);
}

PyRef Capture::new_truth(const Relation& relation) {
  if (const std::optional<bool> known = trace_symbols()->known(relation))
    return PyRef::borrow(*known ? Py_True : Py_False);
  return made(torch_symbol(*this, "SymBool", trace_symbols()->sym_bool(relation).toSymNodeImpl()));
}

PyRef Capture::data_list(PyObject* tensor) {
  if (concrete || !takes_data_numbers || !python::is_tensor(tensor)) return {};
  const at::Tensor& read = python::unpack(tensor);
  int64_t count = 1;
  for (const Dim& size : type_of(read).sizes) {
    if (!size.is_number()) return {};
    count *= size.number();
  }
  if (count > kLongestList) return {};
  if (read.dim() == 0) return data_item(tensor);
  PyRef parts = torch_call(tensor_method("unbind"), "torch.Tensor.unbind", checked(PyTuple_Pack(1, tensor)));
  PyRef list = checked(PyList_New(0));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(parts.get()); ++i) {
    PyRef item = data_list(PySequence_Fast_GET_ITEM(parts.get(), i));
    if (!item) return {};
    python::check(PyList_Append(list.get(), item.get()) == 0);
  }
  return made(std::move(list));
}

PyRef Capture::converted_data(PyObject* type, PyObject* tensor) {
  if (!python::is_tensor(tensor)) return {};
  const at::ScalarType held = python::unpack(tensor).scalar_type();
  const bool to_float = type == reinterpret_cast<PyObject*>(&PyFloat_Type);
  if (!to_float && type != reinterpret_cast<PyObject*>(&PyLong_Type)) return {};
  if (!to_float && !c10::isIntegralType(held, /*includeBool=*/false) && !c10::isFloatingType(held)) return {};
  PyRef item = data_item(tensor);
  const bool converts = item && (to_float ? PyLong_CheckExact(item.get()) : PyFloat_CheckExact(item.get()));
  return converts ? compute(type, item.get(), nullptr) : item;
}

// ---- in the torch-level graph

PyRef Capture::leaf_of(const Dim& dim) {
  if (dim.is_number()) return checked(PyLong_FromLongLong(dim.number()));
  if (auto found = dim_leaves_.find(dim.str()); found != dim_leaves_.end()) return found->second;
  PyRef leaf;
  const DimExpr& expr = *dim.expr();
  if (!mentions_data(dim) || is_size_of_argument(dim)) {
    leaf = source_leaf(source_of_dim(dim));
  } else if (expr.op == DimOp::Symbol) {
    auto found = data_tensors_.find(expr.name);
    if (found == data_tensors_.end()) stop_at_data("a use");
    const auto& [tensor, at] = found->second;
    leaf = record_number(tensor_method("size"), "torch.Tensor.size",
                         checked(PyTuple_Pack(2, tensor.get(), checked(PyLong_FromLong(at)).get())), ValueKind::Int);
  } else {
    PyRef left = leaf_of(expr.lhs), right = leaf_of(expr.rhs);
    PyObject* function = function_of(expr.op);
    leaf =
        record_number(function, name_of(function), checked(PyTuple_Pack(2, left.get(), right.get())), ValueKind::Int);
  }
  dim_leaves_.emplace(dim.str(), leaf);
  return leaf;
}

PyRef Capture::leaf_of(const Relation& relation) {
  if (relation.is_known()) return PyRef::borrow(relation.value() ? Py_True : Py_False);
  PyObject* function = function_of(relation.kind());
  auto joined = [&](const PyRef& left, const PyRef& right) {
    return record_number(function, name_of(function), checked(PyTuple_Pack(2, left.get(), right.get())),
                         ValueKind::Bool);
  };
  if (relation.is_comparison()) return joined(leaf_of(relation.lhs()), leaf_of(relation.rhs()));
  PyRef all = leaf_of(relation.operands()[0]);
  for (size_t i = 1; i < relation.operands().size(); ++i) all = joined(all, leaf_of(relation.operands()[i]));
  return all;
}

PyRef Capture::number_leaf(PyObject* number) {
  if (!is_open_number(number)) return PyRef::borrow(number);
  const Number& known = numbers_.at(number);
  if (known.dim && mentions_data(*known.dim)) return leaf_of(*known.dim);
  return known.from_data ? known.plain : number_input(number);
}

void Capture::note_data_sizes(const PyRef& tensor) {
  if (!trace_symbols() || !trace_symbols()->any_data()) return;
  const std::vector<Dim> sizes = type_of(python::unpack(tensor.get())).sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (is_data_symbol(sizes[d])) data_tensors_.try_emplace(sizes[d].expr()->name, tensor, d);
  }
}

// ---- computing

// As a tensor of doubles, in the trace.
PyRef Capture::plain_number(PyObject* number) {
  if (is_open_number(number)) {
    const Number& known = numbers_.at(number);
    if (known.plain) return known.plain;
    if (known.dim) return python::wrap(traced_number(*known.dim, at::kDouble));
    if (known.changes && PyFloat_CheckExact(number))
      return python::wrap(traced_number(python::unpack(number_input(number).get()), /*as_number=*/false));
    settle(number);
  }
  const double value = PyFloat_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return {};
  }
  return python::wrap(at::scalar_tensor(value, at::TensorOptions().dtype(at::kDouble)));
}

namespace {

// The int is one, which is guarded, or looked at when a run has found it out.
bool is_double(const std::optional<Dim>& dim) {
  constexpr int64_t kMost = int64_t{1} << 53;
  if (!dim) return false;
  for (const Relation& bound : {Relation::le(*dim, kMost), Relation::ge(*dim, -kMost)}) {
    const std::optional<bool> known = trace_symbols()->known(bound);
    if (known == false) return false;
    if (!known && !mentions_data(bound) && !trace_symbols()->decide(bound)) return false;
    if (!known && mentions_data(bound)) trace_symbols()->require(bound);
  }
  return true;
}

}  // namespace

PyRef Capture::compute_data(PyObject* function, PyObject* first, PyObject* second) {
  if (std::optional<PyRef> size = compute_size(function, first, second)) return *size;
  const bool numbers = is_number(first) && (!second || is_number(second));
  if (function == reinterpret_cast<PyObject*>(&PyFloat_Type) && !second) {
    if (PyFloat_CheckExact(first)) return PyRef::borrow(first);
    PyRef leaf = record_number(function, "float", checked(PyTuple_Pack(1, number_leaf(first).get())), ValueKind::Float);
    return new_data_float(plain_number(first), leaf);
  }
  if (function == reinterpret_cast<PyObject*>(&PyLong_Type) && !second && PyLong_CheckExact(first))
    return PyRef::borrow(first);
  if (PyRef made = second ? compute_data_power(function, first, second) : compute_data_float(function, first))
    return made;
  const FloatRow* row = numbers ? float_row(function) : nullptr;
  // Of two ints Python computes exactly, and only then rounds: as doubles do where both ints are doubles.
  const bool of_ints = second && PyLong_CheckExact(first) && PyLong_CheckExact(second);
  if (!row || (!second && !PyFloat_CheckExact(first))) stop_at_data(name_of(function));
  if (of_ints && !(is_double(dim_of_number(first)) && is_double(dim_of_number(second))))
    stop_at_data(name_of(function));
  PyRef left = plain_number(first), right = second ? plain_number(second) : PyRef();
  if (!left || (second && !right)) stop_at_data(name_of(function));
  PyRef leaves = second ? checked(PyTuple_Pack(2, number_leaf(first).get(), number_leaf(second).get()))
                        : checked(PyTuple_Pack(1, number_leaf(first).get()));
  const at::Tensor result = row->run(python::unpack(left.get()), second ? python::unpack(right.get()) : at::Tensor());
  PyRef leaf = record_number(function, name_of(function), leaves, ValueKind::Float);
  return new_data_float(python::wrap(result), leaf);
}

PyRef Capture::data_operand(PyObject* number) {
  const Number& known = numbers_.at(number);
  if (auto found = number_inputs_.find(known.source); found != number_inputs_.end()) return found->second;
  const at::Tensor held = known.plain ? python::unpack(known.plain.get()) : traced_number(*known.dim, at::kLong);
  PyRef operand = python::wrap(traced_number(held, /*as_number=*/true));
  python::check(PyObject_SetAttrString(operand.get(), "_is_number", Py_True) == 0);
  values_[python::unpack(operand.get()).unsafeGetTensorImpl()] = value_of(number_leaf(number).get());
  number_inputs_.emplace(known.source, operand);
  return operand;
}

PyRef Capture::data_result(PyObject* number) {
  const Number& known = numbers_.at(number);
  if (known.plain) return known.plain;
  PyRef& result = data_results_[known.dim->str()];
  if (!result) {
    result = python::wrap(traced_number(*known.dim, at::kLong));
    values_[python::unpack(result.get()).unsafeGetTensorImpl()] = value_of(leaf_of(*known.dim).get());
  }
  return result;
}

namespace {

at::Tensor traced_truth(const Relation& relation) {
  if (relation.is_known()) return at::scalar_tensor(relation.value(), at::TensorOptions().dtype(at::kBool));
  if (!relation.is_comparison()) {
    at::Tensor all = traced_truth(relation.operands()[0]);
    for (size_t i = 1; i < relation.operands().size(); ++i) {
      const at::Tensor next = traced_truth(relation.operands()[i]);
      all = relation.kind() == RelationKind::And ? at::logical_and(all, next) : at::logical_or(all, next);
    }
    return all;
  }
  const at::Tensor left = traced_number(relation.lhs(), at::kLong), right = traced_number(relation.rhs(), at::kLong);
  switch (relation.kind()) {
    case RelationKind::Eq:
      return at::eq(left, right);
    case RelationKind::Ne:
      return at::ne(left, right);
    case RelationKind::Lt:
      return at::lt(left, right);
    default:
      return at::le(left, right);
  }
}

}  // namespace

PyRef Capture::truth_operand(const Relation& relation) {
  PyRef operand = python::wrap(traced_number(traced_truth(relation), /*as_number=*/true));
  python::check(PyObject_SetAttrString(operand.get(), "_is_number", Py_True) == 0);
  values_[python::unpack(operand.get()).unsafeGetTensorImpl()] = value_of(leaf_of(relation).get());
  held_.push_back(operand);
  return operand;
}

PyRef Capture::truth_result(const Relation& relation) {
  PyRef& result = data_results_[relation.str()];
  if (!result) {
    PyRef leaf = leaf_of(relation);
    result = python::wrap(traced_truth(relation));
    values_[python::unpack(result.get()).unsafeGetTensorImpl()] = value_of(leaf.get());
  }
  return result;
}

// ---- questions

PyRef Capture::compare_data(PyObject* function, PyObject* first, PyObject* second) {
  if (concrete || (!is_data_number(first) && !is_data_number(second))) return {};
  if (const std::optional<Relation> relation = size_relation(function, first, second)) return new_truth(*relation);
  return compare_data_floats(function, first, second);
}

std::optional<Relation> Capture::open_relation(PyObject* value) const {
  if (concrete || !trace_symbols() || !trace_symbols()->any_data() || !torch::is_symbool(py::handle(value)))
    return std::nullopt;
  const c10::SymNode node = node_behind(value);
  return node ? relation_of(*node) : std::nullopt;
}

std::optional<bool> Capture::truth_of_data(PyObject* value) {
  const std::optional<Relation> relation = open_relation(value);
  if (!relation) return std::nullopt;
  if (const std::optional<bool> known = trace_symbols()->known(*relation)) return known;
  stop_at_data(fmt::format("a branch on `{}`", relation->str()));
}

void Capture::require_data(const Relation& relation, PyObject* error, PyObject* message) {
  // Where the results are not used after all, the program as it is raises the error.
  PyRef text = PyRef::borrow(Py_None);
  if (message && PyFunction_Check(message) && !reinterpret_cast<PyFunctionObject*>(message)->func_closure)
    text = call(*this, message, {});
  if (PyUnicode_CheckExact(text.get()) || text.get() == Py_None) record_check(relation, error, text.get());
  trace_symbols()->require(relation);
}

void Capture::record_check(const Relation& relation, PyObject* error, PyObject* text) {
  if (!checked_.insert(relation.str()).second) return;
  Suspended suspended(*this);  // loading the module is none of the program's doing
  PyRef name = error ? python::attribute(error, "__name__") : interned("RuntimeError");
  PyRef condition = leaf_of(relation);
  record_number(check_function(), "firesteel.check", checked(PyTuple_Pack(3, condition.get(), name.get(), text)),
                ValueKind::None);
}

bool Capture::has_leaf(const Dim& dim) const {
  if (!mentions_data(dim) || is_size_of_argument(dim) || dim_leaves_.count(dim.str())) return true;
  if (is_data_symbol(dim)) return data_tensors_.count(dim.expr()->name) > 0;
  return has_leaf(dim.expr()->lhs) && has_leaf(dim.expr()->rhs);
}

bool Capture::has_leaf(const Relation& relation) const {
  if (relation.is_known()) return true;
  if (relation.is_comparison()) return has_leaf(relation.lhs()) && has_leaf(relation.rhs());
  return std::all_of(relation.operands().begin(), relation.operands().end(),
                     [&](const Relation& operand) { return has_leaf(operand); });
}

void Capture::record_conditions(bool all) {
  if (!trace_symbols() || !trace_symbols()->any_data()) return;
  const std::vector<DataCondition> conditions = trace_symbols()->data_conditions();
  for (const DataCondition& condition : conditions) {
    if (condition.of_layout) continue;
    if (!has_leaf(condition.relation)) {
      if (all) stop_at_data("a function that is not looked into asks for a size");
      continue;
    }
    const std::string text = fmt::format(
        "the compiled code takes for granted that `{}`, and for this data it is not so\n"
        "  try: torch._check() to say what sizes there are, or drop fullgraph=True",
        condition.relation.str());
    record_check(condition.relation, nullptr, checked(PyUnicode_FromString(text.c_str())).get());
  }
}

}  // namespace firesteel::capture
