// Sizes that change from call to call: numbers to the captured code, symbols of the trace underneath.
//
// The captured code works with a number as with any other that changes (numbers.cpp); what it computes from sizes are
// sizes again, what it decides about them are conditions of the trace, and torch gets them as `torch.SymInt`.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <fmt/format.h>

#include "aot/inner_nodes.h"
#include "aot/recorder.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/kept_numbers.h"
#include "capture/size_settings.h"
#include "graph/data_symbols.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

// What torch keeps on the object of a number that stands for a symbol. Asked without the lock.
c10::IValue symbol_behind(const at::Tensor& number) {
  py::gil_scoped_acquire lock;
  PyObject* object = number.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
  PyRef symbol = object ? python::attribute(object, "_wrapped_number") : PyRef();
  if (!symbol) return {};
  const py::handle held(symbol.get());
  if (torch::is_symint(held)) return held.cast<c10::SymInt>();
  const bool is_float = torch::is_symfloat(held);
  if (!is_float && !torch::is_symbool(held)) return {};
  const c10::SymNode node = node_behind(symbol.get());  // torch's conversion hides it behind one of its own
  if (is_float) return node ? c10::SymFloat(node) : held.cast<c10::SymFloat>();
  return node ? c10::SymBool(node) : held.cast<c10::SymBool>();
}

int64_t small_int(PyObject* number) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  constexpr int64_t kMost = int64_t{1} << 40;
  return overflow || value > kMost || value < -kMost ? INT64_MIN : value;
}

bool is_function(PyObject* function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (function == operator_function(name)) return true;
  }
  return false;
}

PyObject* builtin(const char* name) { return PyDict_GetItemString(PyEval_GetBuiltins(), name); }

// Nothing where the power is no small number.
std::optional<Dim> power_of(const Dim& base, const Dim& power) {
  constexpr int64_t kMost = 8;
  if (!power.is_number() || power.number() < 0 || power.number() > kMost) return std::nullopt;
  Dim product = 1;
  for (int64_t i = 0; i < power.number(); ++i) product = product * base;
  return product;
}

// Python's function on numbers as an expression; nothing where sizes have none.
std::optional<Dim> as_dim(PyObject* function, const Dim& a, const std::optional<Dim>& b) {
  if (!b) {
    if (is_function(function, {"neg"})) return Dim(-1) * a;
    const bool same = is_function(function, {"pos", "index"}) || function == reinterpret_cast<PyObject*>(&PyLong_Type);
    return same ? std::optional(a) : std::nullopt;
  }
  if (is_function(function, {"add", "iadd"})) return a + *b;
  if (is_function(function, {"sub", "isub"})) return a + Dim(-1) * *b;
  if (is_function(function, {"mul", "imul"})) return a * *b;
  if (is_function(function, {"floordiv", "ifloordiv"})) return Dim::make(DimOp::FloorDiv, a, *b);
  if (is_function(function, {"mod", "imod"})) return Dim::make(DimOp::Mod, a, *b);
  if (is_function(function, {"pow", "ipow"})) return power_of(a, *b);
  if (function == builtin("min")) return Dim::make(DimOp::Min, a, *b);
  if (function == builtin("max")) return Dim::make(DimOp::Max, a, *b);
  return std::nullopt;
}

std::optional<Relation> as_relation(PyObject* function, const Dim& a, const std::optional<Dim>& b) {
  if (!b) return is_function(function, {"truth"}) ? std::optional(Relation::ne(a, 0)) : std::nullopt;
  if (is_function(function, {"lt"})) return Relation::lt(a, *b);
  if (is_function(function, {"le"})) return Relation::le(a, *b);
  if (is_function(function, {"eq"})) return Relation::eq(a, *b);
  if (is_function(function, {"ne"})) return Relation::ne(a, *b);
  if (is_function(function, {"gt"})) return Relation::gt(a, *b);
  if (is_function(function, {"ge"})) return Relation::ge(a, *b);
  return std::nullopt;
}

}  // namespace

PyObject* function_of(DimOp op) {
  switch (op) {
    case DimOp::Add:
      return operator_function("add");
    case DimOp::Mul:
      return operator_function("mul");
    case DimOp::FloorDiv:
      return operator_function("floordiv");
    case DimOp::Mod:
      return operator_function("mod");
    case DimOp::Min:
      return builtin("min");
    case DimOp::Max:
      return builtin("max");
    case DimOp::Symbol:
      break;
  }
  return nullptr;
}

PyObject* function_of(RelationKind kind) {
  switch (kind) {
    case RelationKind::Eq:
      return operator_function("eq");
    case RelationKind::Ne:
      return operator_function("ne");
    case RelationKind::Lt:
      return operator_function("lt");
    case RelationKind::Le:
      return operator_function("le");
    case RelationKind::And:
      return operator_function("and_");
    case RelationKind::Or:
      return operator_function("or_");
    case RelationKind::Known:
      break;
  }
  return nullptr;
}

void Capture::expect_size(const Source* tensor, DynamicDim dim) {
  std::vector<DynamicDim>& dims = dynamic_[tensor];
  std::erase_if(dims, [&](const DynamicDim& known) { return known.dim == dim.dim; });
  dims.push_back(dim);
}

void Capture::keep_size(const Source* tensor, int32_t dim) {
  if (auto found = dynamic_.find(tensor); found != dynamic_.end())
    std::erase_if(found->second, [&](const DynamicDim& known) { return known.dim == dim; });
}

// A size that was said to change, and that the code allows one value for.
void Capture::refuse_settled_sizes(const Trace& trace) {
  if (size_settings().ignores_marks) return;
  for (const auto& [source, dim, by_mark] : required_) {
    const auto at =
        static_cast<size_t>(std::find(input_sources.begin(), input_sources.end(), source) - input_sources.begin());
    const Dim& size = trace.joint.graph.inputs.at(at).value->type.sizes.at(dim);
    for (const ShapeGuard& guard : trace.shape_guards) {
      const bool settles =
          guard.relation.kind() == RelationKind::Eq && guard.relation.rhs().is_number() && guard.relation.lhs() == size;
      if (!settles) continue;
      refuse(
          "ControlError",
          fmt::format("{} says that dimension {} of `{}` changes, and the code allows one size alone: {}{}\n  try: {} "
                      "where a graph for each size is fine, or change that line",
                      by_mark ? fmt::format("mark_dynamic({}, {})", source->str(), dim) : "shapes_spec", dim,
                      source->str(), guard.relation.rhs().str(), guard.source ? "\n  at " + guard.source->str() : "",
                      by_mark ? "maybe_mark_dynamic()" : "None in its place in the TensorSpec"));
    }
  }
}

void watch_symbols() {
  set_symbol_behind(&symbol_behind);
  set_inner_node(&inner_node);
}

std::vector<std::vector<DynamicDim>> Capture::dynamic_dims() const {
  std::vector<std::vector<DynamicDim>> dims;
  for (const Source* source : input_sources) {
    auto found = dynamic_.find(source);
    dims.push_back(found == dynamic_.end() ? std::vector<DynamicDim>() : found->second);
  }
  return dims;
}

const Source* Capture::source_of_dim(const Dim& dim) {
  if (dim.is_number()) {
    auto [found, is_new] = size_constants_.try_emplace(dim.number());
    if (is_new) found->second = checked(PyLong_FromLongLong(dim.number()));
    return sources.kept(found->second.get(), std::to_string(dim.number()));
  }
  const DimExpr& expr = *dim.expr();
  if (expr.op == DimOp::Symbol) {
    for (const SymbolOrigin& origin : trace_symbols()->origins()) {
      if (origin.name != expr.name) continue;
      if (origin.dim >= 0) return sources.size(input_sources.at(origin.argument), origin.dim);
      return number_sources.at(static_cast<size_t>(origin.argument) - arguments.size());
    }
    stop(BreakReason::Internal, fmt::format("the size `{}` comes from nowhere", expr.name));
  }
  return sources.computed(function_of(expr.op), source_of_dim(expr.lhs), source_of_dim(expr.rhs));
}

PyRef Capture::size_number(const Dim& dim) {
  const Dim simple = trace_symbols()->simplify(dim);
  if (mentions_data(simple)) return data_size(simple);
  const int64_t hint = trace_symbols()->hint(simple);
  PyRef value = checked(PyLong_FromLongLong(hint));
  if (simple.is_number()) return value;
  const Source* source = source_of_dim(simple);
  if (auto found = numbers_at_.find(source); found != numbers_at_.end()) return found->second;
  return new_number(value.get(), source, true, simple);
}

std::optional<Dim> Capture::dim_of_number(PyObject* number) const {
  if (!PyLong_CheckExact(number)) return std::nullopt;
  if (auto found = numbers_.find(number); found != numbers_.end() && !found->second.settled) return found->second.dim;
  const int64_t value = small_int(number);
  return value == INT64_MIN ? std::nullopt : std::optional(Dim(value));
}

std::optional<PyRef> Capture::compute_size(PyObject* function, PyObject* first, PyObject* second) {
  auto is_size = [&](PyObject* number) { return number && is_open_number(number) && numbers_.at(number).dim; };
  if (!is_size(first) && !is_size(second)) return std::nullopt;
  const std::optional<Dim> a = dim_of_number(first), b = second ? dim_of_number(second) : std::nullopt;
  if (!a || (second && !b)) return std::nullopt;
  const bool divides = second && is_function(function, {"floordiv", "ifloordiv", "mod", "imod"});
  if (divides && trace_symbols()->decide(Relation::eq(*b, 0))) return std::nullopt;
  const std::optional<Dim> made = as_dim(function, *a, b);
  if (!made) return std::nullopt;
  if (second && !is_size(first)) settle(first);
  if (second && !is_size(second)) settle(second);
  return size_number(*made);
}

std::optional<Relation> Capture::size_relation(PyObject* function, PyObject* first, PyObject* second) {
  auto is_size = [&](PyObject* number) { return number && is_open_number(number) && numbers_.at(number).dim; };
  if (!is_size(first) && !is_size(second)) return std::nullopt;
  const std::optional<Dim> a = dim_of_number(first), b = second ? dim_of_number(second) : std::nullopt;
  if (!a || (second && !b)) return std::nullopt;
  const std::optional<Relation> relation = as_relation(function, *a, b);
  if (!relation) return std::nullopt;
  if (!is_size(first)) settle(first);
  if (second && !is_size(second)) settle(second);
  return relation;
}

std::optional<bool> Capture::decide_size(PyObject* function, PyObject* first, PyObject* second) {
  const std::optional<Relation> relation = size_relation(function, first, second);
  if (!relation) return std::nullopt;
  if (!mentions_data(*relation)) return trace_symbols()->decide(*relation);
  if (const std::optional<bool> known = trace_symbols()->known(*relation)) return known;
  stop_at_data(fmt::format("a branch on `{}`", relation->str()));
}

std::optional<bool> Capture::same_sizes(PyObject* a, PyObject* b) {
  if (concrete || !PyTuple_Check(a) || !PyTuple_Check(b) || !is_made(a) || !is_made(b)) return std::nullopt;
  if (!holds_symbol(a) && !holds_symbol(b)) return std::nullopt;
  auto all_numbers = [](PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      if (!is_number(PyTuple_GET_ITEM(tuple, i))) return false;
    }
    return true;
  };
  if (!all_numbers(a) || !all_numbers(b)) return std::nullopt;
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject *left = PyTuple_GET_ITEM(a, i), *right = PyTuple_GET_ITEM(b, i);
    std::optional<bool> same = decide(operator_function("eq"), left, right);
    if (!same) {
      settle(left);
      settle(right);
      same = PyObject_RichCompareBool(left, right, Py_EQ) == 1;
    }
    if (!*same) return false;
  }
  return true;
}

void Capture::note_sizes(const Trace& trace) {
  if (trace.symbols.empty()) return;
  refuse_settled_sizes(trace);
  for (const SymbolOrigin& symbol : trace.symbols) size_hints.push_back(symbol.hint);
  auto sizes = std::make_shared<guards::SizeGuard>();
  sizes->conditions = trace.shape_guards;
  for (const SymbolOrigin& symbol : trace.symbols) {
    if (symbol.from_data()) continue;
    sizes->symbols.push_back(symbol);
    const auto at = static_cast<size_t>(symbol.argument);
    sizes->symbol_sources.push_back(symbol.dim >= 0 ? input_sources.at(at) : number_sources.at(at - arguments.size()));
  }
  // The tensor guards leave open what the symbols say.
  std::unordered_map<const Source*, const Type*> types;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Type& type = trace.joint.graph.inputs.at(i).value->type;
    auto symbolic = [](const Dim& dim) { return !dim.is_number(); };
    if (std::none_of(type.sizes.begin(), type.sizes.end(), symbolic)) continue;
    types.emplace(input_sources[i], &type);
    sizes->tensors.emplace_back(input_sources[i], type);
  }
  for (Guard& guard : guards) {
    auto found = guard.kind == GuardKind::Tensor ? types.find(guard.source) : types.end();
    if (found == types.end()) continue;
    auto facts = std::make_shared<guards::TensorFacts>(*guard.tensor);
    facts->open(*found->second);
    guard.tensor = std::move(facts);
  }
  Guard guard{GuardKind::Sizes};
  guard.sizes = std::move(sizes);
  guards.push_back(std::move(guard));
}

}  // namespace firesteel::capture
