// Views as index maps, and tensors that are one number.
#include "fuse/operand.h"

#include <algorithm>
#include <string_view>

#include "fuse/size_math.h"

namespace firesteel {
namespace {

// How a view's points relate to its input's.
enum class ViewKind : uint8_t { RowMajor, Expand, Transpose, Permute, Matrix, Select, Slice };

struct ViewRule {
  std::string_view op, overload;
  ViewKind kind;
};

// RowMajor keeps the points in order.
constexpr ViewRule kViews[] = {
    {"aten::view", "", ViewKind::RowMajor},          {"aten::_unsafe_view", "", ViewKind::RowMajor},
    {"aten::unsqueeze", "", ViewKind::RowMajor},     {"aten::squeeze", "", ViewKind::RowMajor},
    {"aten::squeeze", "dim", ViewKind::RowMajor},    {"aten::squeeze", "dims", ViewKind::RowMajor},
    {"aten::expand", "", ViewKind::Expand},          {"aten::detach", "", ViewKind::RowMajor},
    {"aten::alias", "", ViewKind::RowMajor},         {"aten::t", "", ViewKind::Matrix},
    {"aten::transpose", "int", ViewKind::Transpose}, {"aten::permute", "", ViewKind::Permute},
    {"aten::select", "int", ViewKind::Select},       {"aten::slice", "Tensor", ViewKind::Slice},
};

// Tensors of one number: operator, and the argument that holds it; -1 and -2 stand for zeros and ones.
struct FillRule {
  std::string_view op, overload;
  int argument;
};
constexpr int kZeros = -1, kOnes = -2;
constexpr FillRule kFills[] = {
    {"aten::full", "", 1},           {"aten::full_like", "", 1},       {"aten::new_full", "", 2},
    {"aten::fill", "Scalar", 1},     {"aten::scalar_tensor", "", 0},   {"aten::zeros", "", kZeros},
    {"aten::ones", "", kOnes},       {"aten::zeros_like", "", kZeros}, {"aten::ones_like", "", kOnes},
    {"aten::new_zeros", "", kZeros}, {"aten::new_ones", "", kOnes},
};

template <class Rule, size_t N>
const Rule* find(const Rule (&rules)[N], const Node& node) {
  if (!node.op.is_aten()) return nullptr;
  const c10::OperatorName& name = node.op.aten->operator_name();
  for (const Rule& rule : rules) {
    if (rule.op == name.name && rule.overload == name.overload_name) return &rule;
  }
  return nullptr;
}

bool is_int(const Arg& arg) { return arg.kind == Arg::Kind::Const && arg.constant.isInt(); }

int64_t wrapped(int64_t dim, size_t rank) { return dim < 0 ? dim + static_cast<int64_t>(rank) : dim; }

// Where along a dimension of that size a slice begins, or a selected element lies. None where it is not a plain number.
std::optional<Dim> start_of(const Node& node, const Dim& size, ViewKind kind) {
  if (node.args[2].kind == Arg::Kind::None) return Dim(0);
  if (!is_int(node.args[2])) return std::nullopt;
  const int64_t number = node.args[2].constant.toInt();
  const Dim start = number < 0 ? size + number : Dim(number);
  if (number == 0 || kind == ViewKind::Select) return start;  // an element that is not there is an error long before
  return Dim::make(DimOp::Min, Dim::make(DimOp::Max, start, 0), size);
}

// Elements from the input's first to the view's. None where an argument is not a plain number.
std::optional<Dim> view_offset(const Node& node, ViewKind kind) {
  if (kind != ViewKind::Select && kind != ViewKind::Slice) return Dim(0);
  const Type& input = node.args[0].value->type;
  if (!is_int(node.args[1])) return std::nullopt;
  const int64_t dim = wrapped(node.args[1].constant.toInt(), input.sizes.size());
  const std::optional<Dim> start = start_of(node, input.sizes[dim], kind);
  if (!start) return std::nullopt;
  return *start * input.strides[dim];
}

const ViewRule* view_rule(const Node& node) {
  const ViewRule* rule = find(kViews, node);
  if (!rule || node.args[0].kind != Arg::Kind::Value || node.outputs.size() != 1) return nullptr;
  const Type &from = node.args[0].value->type, &to = node.outputs[0]->type;
  if (!is_loopable(from) || !is_loopable(to) || from.dtype != to.dtype) return nullptr;
  return view_offset(node, rule->kind) ? rule : nullptr;
}

std::optional<at::Scalar> fill_of(const Node& node) {
  const FillRule* rule = find(kFills, node);
  if (!rule) return std::nullopt;
  if (rule->argument < 0) return at::Scalar(rule->argument == kOnes ? 1 : 0);
  const Arg& arg = node.args[rule->argument];
  if (arg.kind != Arg::Kind::Const || !arg.constant.isScalar() || arg.constant.isComplexDouble()) return std::nullopt;
  return arg.constant.toScalar();
}

std::optional<Placement> place_through(const Node& node, ViewKind kind, const Placement& input, LoopTable& loops) {
  const std::vector<Dim>& sizes = node.outputs[0]->type.sizes;
  const size_t rank = input.size();
  Placement result = input;
  switch (kind) {
    case ViewKind::RowMajor:
      return loops.reshape(input, sizes);
    case ViewKind::Expand:
      // What is repeated has no loops; those that it is repeated along are the reader's.
      result.insert(result.begin(), sizes.size() - rank, {});
      return result;
    case ViewKind::Matrix:
      std::reverse(result.begin(), result.end());
      return result;
    case ViewKind::Transpose:
      if (rank < 2) return result;
      std::swap(result[wrapped(node.args[1].constant.toInt(), rank)],
                result[wrapped(node.args[2].constant.toInt(), rank)]);
      return result;
    case ViewKind::Permute: {
      const std::vector<int64_t> order = node.args[1].constant.toIntVector();
      for (size_t d = 0; d < order.size(); ++d) result[d] = input[wrapped(order[d], rank)];
      return result;
    }
    case ViewKind::Select:
    case ViewKind::Slice:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Element> element_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Bool:
      return Element::Bool;
    case c10::ScalarType::Byte:
      return Element::U8;
    case c10::ScalarType::Char:
      return Element::I8;
    case c10::ScalarType::Short:
      return Element::I16;
    case c10::ScalarType::Int:
      return Element::I32;
    case c10::ScalarType::Long:
      return Element::I64;
    case c10::ScalarType::BFloat16:
      return Element::BF16;
    case c10::ScalarType::Half:
      return Element::F16;
    case c10::ScalarType::Float:
      return Element::F32;
    case c10::ScalarType::Double:
      return Element::F64;
    default:
      return std::nullopt;
  }
}

bool is_loopable(const Type& type) {
  return type.is_tensor() && type.device.is_cpu() && element_of(type.dtype).has_value();
}

bool is_mapped_view(const Node& node) { return view_rule(node) != nullptr; }

Operand resolve(const Value* value) {
  Operand operand;
  operand.root = value;
  while (operand.root->def) {
    const Node& node = *operand.root->def;
    const ViewRule* rule = view_rule(node);
    if (!rule) {
      operand.constant = fill_of(node);
      break;
    }
    operand.offset = operand.offset + *view_offset(node, rule->kind);
    operand.views.insert(operand.views.begin(), &node);
    operand.root = node.args[0].value;
  }
  return operand;
}

std::optional<std::vector<Dim>> slice_starts(const Operand& operand) {
  std::vector<Dim> starts(operand.root->type.sizes.size(), 0);
  for (const Node* view : operand.views) {
    const Type &from = view->args[0].value->type, &to = view->outputs[0]->type;
    if (view_rule(*view)->kind != ViewKind::Slice || from.strides != to.strides) return std::nullopt;
    const auto dim = static_cast<size_t>(wrapped(view->args[1].constant.toInt(), starts.size()));
    const std::optional<Dim> start = start_of(*view, from.sizes[dim], ViewKind::Slice);
    if (!start || is_number(from.strides[dim], 0)) return std::nullopt;
    starts[dim] = starts[dim] + *start;
  }
  return starts;
}

std::optional<Placement> place_view(const Operand& operand, Placement root, LoopTable& loops) {
  std::optional<Placement> placement = std::move(root);
  for (const Node* view : operand.views) {
    placement = place_through(*view, view_rule(*view)->kind, *placement, loops);
    if (!placement) return std::nullopt;
  }
  return placement;
}

}  // namespace firesteel
