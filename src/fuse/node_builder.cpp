// Casts, constants and type promotion for the rules of pointwise operators.
#include "fuse/node_builder.h"

#include <algorithm>
#include <string_view>

#include <ATen/native/TypeProperties.h>

namespace firesteel {
namespace {

c10::ScalarType promote(c10::ScalarType a, c10::ScalarType b) {
  if (a == c10::ScalarType::Undefined) return b;
  if (b == c10::ScalarType::Undefined) return a;
  return c10::promoteTypes(a, b);
}

// Operators whose second operand may be a number that sizes give.
bool takes_size(const Node& node, size_t argument) {
  static constexpr std::string_view kNames[] = {"mul", "add", "sub", "div", "lt", "le", "gt", "ge", "eq", "ne"};
  const c10::OperatorName& name = node.op.aten->operator_name();
  const std::string_view plain = std::string_view(name.name).substr(std::string_view("aten::").size());
  return argument == 1 && name.name.starts_with("aten::") &&
         (name.overload_name == "Tensor" || name.overload_name == "Scalar") &&
         std::find(std::begin(kNames), std::end(kNames), plain) != std::end(kNames);
}

bool is_number(const Arg& arg) {
  return arg.kind == Arg::Kind::Const && arg.constant.isScalar() && !arg.constant.isComplexDouble();
}

}  // namespace

NodeBuilder::NodeBuilder(const Node& node, LoopKernel& kernel, Operands& operands)
    : node_(node), kernel_(kernel), operands_(operands) {
  for (size_t i = node.outputs.size(); i-- > 0;) {
    const Type& type = node.outputs[i]->type;
    if (!type.is_tensor()) continue;
    if (!is_loopable(type)) return;
    out_ = *element_of(type.dtype);
    usable_ = true;
  }
  for (size_t i = 0; i < node.args.size(); ++i) {
    const Arg& arg = node.args[i];
    if (!usable_) return;
    if (arg.kind == Arg::Kind::Value) usable_ = usable_ && is_loopable(arg.value->type);
    if (!arg.items.empty() || (arg.kind == Arg::Kind::Dim && !takes_size(node, i))) usable_ = false;
    if (arg.kind == Arg::Kind::Const && arg.constant.isComplexDouble()) usable_ = false;
  }
}

ExprId NodeBuilder::raw(size_t index) {
  const Arg& arg = node_.args[index];
  if (arg.kind == Arg::Kind::Value) return operands_.value(arg.value);
  // A tensor of one number that is known.
  const at::Scalar number = arg.constant.toScalar();
  return literal(number, number.isFloatingPoint() ? Element::F64 : number.isBoolean() ? Element::Bool : Element::I64);
}

// A number in that type; where it is half as wide, rounded, and then an f32 again.
ExprId NodeBuilder::literal(const at::Scalar& value, Element type) {
  const Element math = computed_as(type);
  ExprId id = kNoExpr;
  if (is_float(type)) {
    id = kernel_.number(math, math == Element::F32 ? static_cast<double>(value.to<float>()) : value.to<double>());
  } else {
    id = kernel_.integer(math, math == Element::Bool ? value.to<bool>() : value.to<int64_t>());
  }
  return kernel_.cast(kernel_.cast(id, type), math);
}

ExprId NodeBuilder::in_as(size_t index, Element type) {
  const Arg& arg = node_.args[index];
  if (arg.kind == Arg::Kind::Const) return literal(arg.constant.toScalar(), type);
  if (arg.kind == Arg::Kind::Dim) return kernel_.cast(kernel_.cast(kernel_.size(arg.dim), type), computed_as(type));
  return kernel_.cast(kernel_.cast(raw(index), type), computed_as(type));
}

ExprId NodeBuilder::in_unrounded(size_t index) {
  const Arg& arg = node_.args[index];
  const bool single = arg.kind != Arg::Kind::Value || arg.value->type.sizes.empty();
  return in_as(index, single ? computed_as(out_) : out_);
}

ExprId NodeBuilder::finish(ExprId result, size_t index) {
  const Type& type = node_.outputs[index]->type;
  return type.is_tensor() ? kernel_.cast(result, *element_of(type.dtype)) : kNoExpr;
}

ExprId NodeBuilder::constant(double value) {
  const Element math = computed_as(out_);
  return is_float(math) ? kernel_.number(math, math == Element::F32 ? static_cast<float>(value) : value)
                        : kernel_.integer(math, static_cast<int64_t>(value));
}

ExprId NodeBuilder::size(const Dim& size) {
  if (size.is_number()) return constant(static_cast<double>(size.number()));
  return kernel_.cast(kernel_.size(size), computed_as(out_));
}

ExprId NodeBuilder::rounded_constant(const at::Scalar& value) { return literal(value, out_); }

bool NodeBuilder::is_bool(size_t index) const {
  const Arg& arg = node_.args[index];
  return arg.kind == Arg::Kind::Value && arg.value->type.dtype == c10::ScalarType::Bool;
}

bool NodeBuilder::fits(size_t index, Element type) const {
  if (node_.args[index].kind == Arg::Kind::Dim) return is_float(type) || type == Element::I64;
  if (!is_constant(index) || is_float(type) || type == Element::Bool || type == Element::I64) return true;
  const at::Scalar number = scalar(index);
  const int bits = 8 * static_cast<int>(element_bytes(type)) - (type == Element::U8 ? 0 : 1);
  const int64_t highest = (int64_t{1} << bits) - 1, lowest = type == Element::U8 ? 0 : -highest - 1;
  return number.isIntegral(true) && number.to<int64_t>() >= lowest && number.to<int64_t>() <= highest;
}

at::Scalar NodeBuilder::scalar(size_t index) const {
  if (index >= node_.args.size() || !is_number(node_.args[index])) return 1;
  return node_.args[index].constant.toScalar();
}

std::string NodeBuilder::text(size_t index) const {
  const Arg& arg = node_.args[index];
  return arg.kind == Arg::Kind::Const && arg.constant.isString() ? arg.constant.toStringRef() : std::string();
}

std::optional<Element> NodeBuilder::common_type() const {
  at::native::ResultTypeState state{c10::ScalarType::Undefined, c10::ScalarType::Undefined, c10::ScalarType::Undefined};
  for (size_t i = 0; i < 2; ++i) {
    const Arg& arg = node_.args[i];
    if (arg.kind == Arg::Kind::Value) {
      auto& result = arg.value->type.sizes.empty() ? state.zeroResult : state.dimResult;
      result = promote(result, arg.value->type.dtype);
    } else {
      const at::Scalar number = arg.kind == Arg::Kind::Dim ? at::Scalar(int64_t{0}) : arg.constant.toScalar();
      const auto type = number.isFloatingPoint() ? c10::typeMetaToScalarType(c10::get_default_dtype()) : number.type();
      state.wrappedResult = promote(state.wrappedResult, type);
    }
  }
  return element_of(at::native::result_type(state));
}

}  // namespace firesteel
