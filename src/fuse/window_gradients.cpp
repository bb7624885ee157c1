// The windows over a point, in the order in which eager adds up what they give.
#include "fuse/window_gradients.h"

#include "fuse/operand.h"
#include "fuse/pool_arguments.h"

namespace firesteel {
namespace {

// grad (0), picture (1), arguments of the pool (2 …); of the largest their places last.
struct PoolGradient {
  Pool pool;
  const Value* grad = nullptr;
  const Value* places = nullptr;
};

// Each chosen place is one number to ATen, which clears the picture and adds to a few of its points. Looking at it from
// every point is as fast where windows do not overlap, and slower where they do.
constexpr int64_t kMostChoices = 1;

// How many windows can reach a point along a side.
int64_t windows_over(const PoolSide& side) {
  const int64_t reach = (side.size - 1) * side.dilation + 1;
  return (reach + side.step - 1) / side.step;
}

std::optional<PoolGradient> gradient_of(const Node& node) {
  if (!node.op.is_aten() || node.args.empty() || node.args[0].kind != Arg::Kind::Value) return std::nullopt;
  const std::string name = node.op.str();
  const bool is_max = name == "aten.max_pool2d_with_indices_backward";
  const bool is_even = name == "aten._adaptive_avg_pool2d_backward";
  if (!is_max && !is_even && name != "aten.avg_pool2d_backward") return std::nullopt;
  const Value* grad = node.args[0].value;
  const Type &from = node.outputs[0]->type, &to = grad->type;
  if (!is_picture(grad) || !has_picture_layout(from) || from.dtype != to.dtype) return std::nullopt;
  const std::optional<Pool> pool = is_even ? even_pool(from, to) : pool_at(node, 2, is_max, from, to);
  if (!pool) return std::nullopt;
  const int64_t windows = windows_over(pool->down) * windows_over(pool->along);
  if (windows > (is_max ? kMostChoices : kMostPlaces)) return std::nullopt;
  PoolGradient gradient{*pool, grad};
  if (is_max) {
    gradient.places = node.args.at(7).kind == Arg::Kind::Value ? node.args[7].value : nullptr;
    if (!gradient.places || gradient.places->type.dtype != at::kLong || resolve(gradient.places).constant ||
        !has_picture_layout(gradient.places->type))
      return std::nullopt;
  }
  return gradient;
}

class WindowsOver {
 public:
  WindowsOver(const Node& node, const PoolGradient& gradient, LoopKernel& kernel, Operands& operands)
      : gradient_(gradient),
        kernel_(kernel),
        operands_(operands),
        rank_(node.outputs[0]->type.sizes.size()),
        element_(*element_of(node.outputs[0]->type.dtype)) {}

  ExprId lower() {
    const Pool& pool = gradient_.pool;
    ExprId sum = kernel_.number(computed_as(element_), 0);
    for (int64_t down = windows_over(pool.down); down-- > 0;) {
      const Window row = window(pool.down, rank_ - 2, down);
      for (int64_t along = windows_over(pool.along); along-- > 0;) {
        sum = rounded(op(LoopOp::Add, sum, given(row, window(pool.along, rank_ - 1, along))));
      }
    }
    return kernel_.cast(sum, element_);
  }

 private:
  struct Window {
    ExprId number;  // an i32, brought to one that there is
    ExprId over;    // whether it is one, and lies over the point; kNoExpr where all do
  };

  ExprId whole(int64_t value) { return kernel_.integer(Element::I32, value); }
  ExprId op(LoopOp op, ExprId a, ExprId b, ExprId c = kNoExpr) { return kernel_.op(op, a, b, c); }
  ExprId rounded(ExprId value) { return kernel_.cast(kernel_.cast(value, element_), computed_as(element_)); }
  ExprId both(ExprId a, ExprId b) { return a == kNoExpr ? b : b == kNoExpr ? a : op(LoopOp::And, a, b); }
  ExprId index(size_t dim) { return kernel_.cast(operands_.index(dim), Element::I32); }

  // The last window that begins at the point or before it, and those `before` it.
  Window window(const PoolSide& side, size_t dim, int64_t before) {
    const ExprId place = op(LoopOp::Add, index(dim), whole(side.pad));
    const ExprId number = op(LoopOp::Sub, op(LoopOp::Quotient, place, whole(side.step)), whole(before));
    Window found{number, kNoExpr};
    if (side.pad / side.step < before) found.over = op(LoopOp::Ge, number, whole(0));
    if ((side.of - 1 + side.pad) / side.step - before >= side.points)
      found.over = both(found.over, op(LoopOp::Lt, number, whole(side.points)));
    // Where a place is known, it says by itself which windows chose it.
    if (!gradient_.places && (before + 1) * side.step > side.size) {
      const ExprId end = op(LoopOp::Add, op(LoopOp::Mul, number, whole(side.step)), whole(side.size));
      found.over = both(found.over, op(LoopOp::Lt, place, end));
    }
    found.number = op(LoopOp::Max, op(LoopOp::Min, number, whole(side.points - 1)), whole(0));
    return found;
  }

  ExprId given(const Window& row, const Window& column) {
    const Pool& pool = gradient_.pool;
    const Element math = computed_as(element_);
    ExprId grad = kernel_.cast(operands_.pixel(gradient_.grad, row.number, column.number), math);
    ExprId over = both(row.over, column.over);
    if (gradient_.places) {
      ExprId place = kernel_.cast(operands_.pixel(gradient_.places, row.number, column.number), Element::I32);
      ExprId here = op(LoopOp::Add, op(LoopOp::Mul, index(rank_ - 2), whole(pool.along.of)), index(rank_ - 1));
      over = both(over, op(LoopOp::Eq, place, here));
    } else if (pool.divisor) {
      grad = rounded(op(LoopOp::Div, grad, kernel_.number(math, static_cast<double>(*pool.divisor))));
    } else {
      const ExprId count = op(LoopOp::Mul, window_length(kernel_, pool.down, row.number, pool.counts_pad),
                              window_length(kernel_, pool.along, column.number, pool.counts_pad));
      grad = rounded(op(LoopOp::Div, grad, kernel_.cast(count, math)));
    }
    return over == kNoExpr ? grad : op(LoopOp::Select, over, grad, kernel_.number(math, 0));
  }

  const PoolGradient& gradient_;
  LoopKernel& kernel_;
  Operands& operands_;
  const size_t rank_;
  const Element element_;
};

}  // namespace

std::optional<NodeSpace> window_gradient_space(const Node& node) {
  const std::optional<PoolGradient> gradient = gradient_of(node);
  if (!gradient) return std::nullopt;
  NodeSpace space{node.outputs[0]->type.sizes, {}};
  space.in_memory.push_back(gradient->grad);
  if (gradient->places) space.in_memory.push_back(gradient->places);
  space.alone = !gradient->places;
  space.in_company = !space.alone;
  return space;
}

std::optional<ExprId> lower_window_gradient(const Node& node, LoopKernel& kernel, Operands& operands) {
  const std::optional<PoolGradient> gradient = gradient_of(node);
  if (!gradient) return std::nullopt;
  return WindowsOver(node, *gradient, kernel, operands).lower();
}

}  // namespace firesteel
