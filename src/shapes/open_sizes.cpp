// Computes open sizes, and puts numbers or other symbols in place of symbols in a whole graph.
#include "shapes/open_sizes.h"

#include <algorithm>

#include "base/error.h"
#include "graph/data_symbols.h"

namespace firesteel {
namespace {

void collect_symbols(const Dim& dim, std::vector<std::string>& names) {
  if (dim.is_number()) return;
  if (dim.expr()->op == DimOp::Symbol) {
    const size_t number = symbol_number(dim.expr()->name);
    while (names.size() <= number) names.push_back("s" + std::to_string(names.size()));
    names[number] = dim.expr()->name;
  } else {
    collect_symbols(dim.expr()->lhs, names);
    collect_symbols(dim.expr()->rhs, names);
  }
}

int64_t value_of(const Dim& dim, std::span<const int64_t> symbols) {
  const auto value = dim.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const size_t number = symbol_number(name);
    return number < symbols.size() ? std::optional(symbols[number]) : std::nullopt;
  });
  FS_REQUIRE(value, InputMismatchError, "the size `{}`, which follows from the inputs' sizes, has no value", dim.str());
  return *value;
}

void replace(std::vector<Dim>& dims, std::span<const int64_t> symbols) {
  for (Dim& dim : dims) dim = value_of(dim, symbols);
}

void replace(Type& type, std::span<const int64_t> symbols) {
  replace(type.sizes, symbols);
  replace(type.strides, symbols);
}

void replace(Arg& arg, std::span<const int64_t> symbols) {
  if (!arg.has_dim()) return;
  if (arg.kind == Arg::Kind::Dim || arg.kind == Arg::Kind::List) arg = Arg::of_const(constant_of(arg, symbols));
}

Dim renamed(const Dim& dim, const EqualSymbols& equal) {
  if (dim.is_number()) return dim;
  const DimExpr& expr = *dim.expr();
  if (expr.op != DimOp::Symbol) return Dim::make(expr.op, renamed(expr.lhs, equal), renamed(expr.rhs, equal));
  auto found = equal.find(expr.name);
  return found == equal.end() ? dim : found->second;
}

void rename(Type& type, const EqualSymbols& equal) {
  for (Dim& size : type.sizes) size = renamed(size, equal);
  for (Dim& stride : type.strides) stride = renamed(stride, equal);
}

void rename(Arg& arg, const EqualSymbols& equal) {
  if (!arg.has_dim()) return;
  arg.dim = renamed(arg.dim, equal);
  for (Arg& item : arg.items) rename(item, equal);
}

bool is_symbolic(const Type& type) {
  auto symbolic = [](const Dim& dim) { return !dim.is_number(); };
  return std::any_of(type.sizes.begin(), type.sizes.end(), symbolic) ||
         std::any_of(type.strides.begin(), type.strides.end(), symbolic);
}

}  // namespace

std::vector<std::string> symbol_names(std::span<const Dim> dims) {
  std::vector<std::string> names;
  for (const Dim& dim : dims) collect_symbols(dim, names);
  return names;
}

OpenSizes::OpenSizes(std::span<const Dim> dims)
    : names_(symbol_names(dims)), program_(dims, names_), count_(dims.size()) {}

std::vector<int64_t> OpenSizes::run(std::span<const int64_t> symbols) const {
  std::vector<int64_t> values(count_);
  FS_CHECK(symbols.size() >= names_.size(), "a graph with open sizes got too few of them");
  FS_REQUIRE(program_.run(symbols.data(), values.data()), InputMismatchError,
             "a size that follows from the inputs' sizes has no value");
  return values;
}

std::vector<int64_t> sizes_of(std::span<const Dim> dims, std::span<const int64_t> symbols) {
  std::vector<int64_t> values;
  values.reserve(dims.size());
  for (const Dim& dim : dims) values.push_back(value_of(dim, symbols));
  return values;
}

c10::IValue constant_of(const Arg& arg, std::span<const int64_t> symbols) {
  switch (arg.kind) {
    case Arg::Kind::None:
      return {};
    case Arg::Kind::Const:
      return arg.constant;
    case Arg::Kind::Dim:
      return value_of(arg.dim, symbols);
    case Arg::Kind::List: {
      std::vector<int64_t> numbers;
      for (const Arg& item : arg.items) numbers.push_back(constant_of(item, symbols).toInt());
      return numbers;
    }
    default:
      break;
  }
  FS_CHECK(false, "an argument of a view is no constant");
  return {};
}

Graph with_sizes(const Graph& graph, std::span<const int64_t> symbols) {
  Graph made = graph.clone();
  for (Input& input : made.inputs) replace(input.value->type, symbols);
  for (auto& node : made.nodes) {
    for (Arg& arg : node->args) replace(arg, symbols);
    for (auto& output : node->outputs) replace(output->type, symbols);
  }
  return made;
}

void rename(Graph& graph, const EqualSymbols& equal) {
  if (equal.empty()) return;
  for (Input& input : graph.inputs) rename(input.value->type, equal);
  for (auto& node : graph.nodes) {
    for (Arg& arg : node->args) rename(arg, equal);
    for (auto& output : node->outputs) rename(output->type, equal);
  }
}

bool has_symbols(const Graph& graph) {
  auto of_input = [](const Input& input) { return is_symbolic(input.value->type); };
  auto of_node = [](const auto& node) {
    return node->has_dim() || std::any_of(node->outputs.begin(), node->outputs.end(),
                                          [](const auto& output) { return is_symbolic(output->type); });
  };
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), of_input) ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), of_node);
}

}  // namespace firesteel
