// Bounds of random numbers, and comparisons that they decide.
#include "aot/value_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <ATen/FunctionalTensorWrapper.h>

#include "aot/constant_values.h"
#include "aot/dispatch_keys.h"
#include "aot/fake_tensor.h"

namespace firesteel {
namespace {

struct Range {
  double low, high;
  bool reaches_high;
};

enum class Relation : uint8_t { Lt, Le, Gt, Ge, Eq, Ne };
constexpr struct {
  std::string_view op;
  Relation relation;
} kRelations[] = {
    {"aten::lt", Relation::Lt}, {"aten::le", Relation::Le}, {"aten::gt", Relation::Gt},
    {"aten::ge", Relation::Ge}, {"aten::eq", Relation::Eq}, {"aten::ne", Relation::Ne},
};

// Their elements are elements of their first argument.
constexpr auto kKeepValues = std::to_array<std::string_view>({
    "aten::alias",
    "aten::clone",
    "aten::detach",
    "aten::expand",
    "aten::select",
    "aten::slice",
    "aten::squeeze",
    "aten::unsqueeze",
});

std::optional<double> number_of(const Arg& arg) {
  if (arg.kind != Arg::Kind::Const) return std::nullopt;
  if (arg.constant.isDouble()) return arg.constant.toDouble();
  if (arg.constant.isInt()) return static_cast<double>(arg.constant.toInt());
  return std::nullopt;
}

std::string_view op_name(const Value* value) {
  return value->def && value->def->op.is_aten() ? std::string_view(value->def->op.aten->operator_name().name) : "";
}

std::optional<Range> range_of(const Value* value) {
  // Smaller types may round up to their upper bound.
  if (value->type.dtype != at::kFloat && value->type.dtype != at::kDouble) return std::nullopt;
  const std::string_view op = op_name(value);
  if (op == "aten::rand" || op == "aten::rand_like") return Range{0, 1, false};
  if (op == "aten::uniform") {
    const std::optional<double> low = number_of(value->def->args[1]), high = number_of(value->def->args[2]);
    // What is computed from a number below the upper bound may be rounded to it.
    if (low && high && *low <= *high) return Range{*low, *high, true};
  }
  const bool keeps = std::find(kKeepValues.begin(), kKeepValues.end(), op) != kKeepValues.end();
  if (keeps && value->def->args[0].kind == Arg::Kind::Value) return range_of(value->def->args[0].value);
  return std::nullopt;
}

// Whether all of the range is below the number, and whether none of it is.
std::optional<bool> is_below(const Range& range, double number, bool or_equal) {
  const bool at_most = range.reaches_high && !or_equal ? range.high < number : range.high <= number;
  if (at_most) return true;
  if (or_equal ? range.low > number : range.low >= number) return false;
  return std::nullopt;
}

std::optional<bool> opposite(std::optional<bool> answer) { return answer ? std::optional(!*answer) : answer; }

std::optional<bool> holds(const Range& range, Relation relation, double number) {
  switch (relation) {
    case Relation::Lt:
      return is_below(range, number, false);
    case Relation::Le:
      return is_below(range, number, true);
    case Relation::Gt:
      return opposite(is_below(range, number, true));
    case Relation::Ge:
      return opposite(is_below(range, number, false));
    case Relation::Eq:
    case Relation::Ne: {
      const bool outside = is_below(range, number, false) == true || is_below(range, number, true) == false;
      return outside ? std::optional(relation == Relation::Ne) : std::nullopt;
    }
  }
  return std::nullopt;
}

// The value of a traced tensor, with all that was written to it; null for others.
const Value* value_of(const at::Tensor& tensor) {
  if (at::functionalization::impl::isFunctionalTensor(tensor)) at::functionalization::impl::sync(tensor);
  const FakeTensorImpl* fake = as_fake_inside(tensor);
  return fake ? fake->value() : nullptr;
}

}  // namespace

bool is_known(const at::Tensor& tensor) {
  const Value* value = value_of(tensor);
  return value && constant_value(as_fake_inside(tensor)->recorder(), value).defined();
}

std::optional<bool> known_truth(const at::Tensor& tensor) {
  const Value* value = value_of(tensor);
  if (!value || tensor.numel() != 1) return std::nullopt;
  const std::string_view op = op_name(value);
  for (const auto& row : kRelations) {
    if (row.op != op || value->def->args[0].kind != Arg::Kind::Value) continue;
    const Value* compared = value->def->args[0].value;
    const std::optional<Range> range = range_of(compared);
    std::optional<double> number = number_of(value->def->args[1]);
    if (!range || !number || std::isnan(*number)) break;
    // torch compares in the tensor's type.
    if (compared->type.dtype == at::kFloat) number = static_cast<float>(*number);
    return holds(*range, row.relation, *number);
  }
  const at::Tensor constant = constant_value(as_fake_inside(tensor)->recorder(), value);
  if (!constant.defined()) return std::nullopt;
  OutsideTrace outside;
  return constant.is_nonzero();
}

}  // namespace firesteel
