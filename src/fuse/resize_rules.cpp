// Where in a picture the points of a larger one lie, by the formulas of ATen.
#include "fuse/resize_rules.h"

#include <cmath>

#include "fuse/operand.h"
#include "fuse/pool_arguments.h"
#include "fuse/window_rules.h"

namespace firesteel {
namespace {

// Along one dimension: the smaller picture's length, the larger one's, and from the larger to the smaller.
struct ResizeSide {
  int64_t small = 0, large = 0;
  double scale = 1;  // rounded to the type in which places are computed
};

struct Resize {
  const Value* from = nullptr;
  bool is_gradient = false, between = false, aligned = false;  // between four points; corners on corners
  ResizeSide down, along;
};

struct ResizeRule {
  const char* op;
  bool is_gradient, between;
  size_t scales;  // the argument of the first side's factor
};
constexpr ResizeRule kResizes[] = {
    {"aten.upsample_nearest2d", false, false, 2},
    {"aten.upsample_bilinear2d", false, true, 3},
    {"aten.upsample_nearest2d_backward", true, false, 3},
    {"aten.upsample_bilinear2d_backward", true, true, 4},
};

std::optional<double> factor_at(const Node& node, size_t argument) {
  const Arg& arg = node.args.at(argument);
  if (arg.kind != Arg::Kind::Const || !arg.constant.isDouble()) return std::nullopt;
  return arg.constant.toDouble();
}

double scale_of(const ResizeSide& side, bool aligned, std::optional<double> factor, bool in_double) {
  auto rounded = [&](double value) { return in_double ? value : static_cast<float>(value); };
  if (aligned) return side.large > 1 ? rounded(static_cast<double>(side.small - 1) / (side.large - 1)) : 0;
  if (factor && *factor > 0) return rounded(1 / *factor);
  return rounded(static_cast<double>(side.small) / side.large);
}

// Neighbours of the larger picture lie at most one point of the smaller one apart, rounding included.
bool grows(const ResizeSide& side) {
  constexpr int64_t kLongest = 1 << 16;
  return side.large < kLongest && (side.small == side.large || side.scale < 0.99);
}

// Every point of the smaller picture stands for as many of the larger one.
bool is_even(const ResizeSide& side, bool in_double) {
  if (side.large % side.small != 0) return false;
  for (int64_t i = 0; i < side.large; ++i) {
    const double place =
        in_double ? static_cast<double>(i) * side.scale : static_cast<float>(i) * static_cast<float>(side.scale);
    if (static_cast<int64_t>(std::floor(place)) != i / (side.large / side.small)) return false;
  }
  return true;
}

// A gradient is gathered where the points that a point stands for are the same everywhere, and few.
bool can_gather(const Resize& resize, bool in_double) {
  auto factor = [](const ResizeSide& side) { return side.large / side.small; };
  if (!is_even(resize.down, in_double) || !is_even(resize.along, in_double)) return false;
  auto doubles = [&](const ResizeSide& side) { return factor(side) == 2 && side.scale == 0.5; };
  if (resize.between) return !resize.aligned && doubles(resize.down) && doubles(resize.along);
  // Every third or fourth element of memory would be a machine's gathers: ATen is faster.
  return factor(resize.along) <= 2 && factor(resize.down) * factor(resize.along) <= kMostPlaces;
}

std::optional<Resize> resize_of(const Node& node) {
  if (!node.op.is_aten() || node.args.empty() || node.args[0].kind != Arg::Kind::Value) return std::nullopt;
  const std::string name = node.op.str();
  for (const ResizeRule& rule : kResizes) {
    if (name != rule.op) continue;
    const Value *from = node.args[0].value, *to = node.outputs[0].get();
    if (!is_picture(from) || !has_picture_layout(to->type)) return std::nullopt;
    Resize resize{from, rule.is_gradient, rule.between};
    if (rule.between) {
      const Arg& aligned = node.args.at(rule.scales - 1);
      if (aligned.kind != Arg::Kind::Const || !aligned.constant.isBool()) return std::nullopt;
      resize.aligned = aligned.constant.toBool();
    }
    const Type &small = (rule.is_gradient ? to : from)->type, &large = (rule.is_gradient ? from : to)->type;
    const bool in_double = from->type.dtype == at::kDouble;
    const size_t rank = small.sizes.size();
    for (size_t i = 0; i < 2; ++i) {
      ResizeSide& side = i ? resize.along : resize.down;
      side.small = small.sizes[rank - 2 + i].number();
      side.large = large.sizes[rank - 2 + i].number();
      side.scale = scale_of(side, resize.aligned, factor_at(node, rule.scales + i), in_double);
    }
    const bool possible = rule.is_gradient ? can_gather(resize, in_double) : grows(resize.along);
    return possible ? std::optional(resize) : std::nullopt;
  }
  return std::nullopt;
}

class Resizer {
 public:
  Resizer(const Node& node, const Resize& resize, LoopKernel& kernel, Operands& operands)
      : resize_(resize),
        kernel_(kernel),
        operands_(operands),
        rank_(node.outputs[0]->type.sizes.size()),
        element_(*element_of(node.outputs[0]->type.dtype)),
        math_(computed_as(element_)) {}

  ExprId lower() {
    if (resize_.is_gradient) return kernel_.cast(resize_.between ? gathered_between() : gathered(), element_);
    return kernel_.cast(resize_.between ? between() : nearest(), element_);
  }

 private:
  ExprId whole(int64_t value) { return kernel_.integer(Element::I32, value); }
  ExprId number(double value) { return kernel_.number(math_, value); }
  ExprId op(LoopOp op, ExprId a, ExprId b, ExprId c = kNoExpr) { return kernel_.op(op, a, b, c); }
  ExprId index(size_t dim) { return kernel_.cast(operands_.index(dim), Element::I32); }
  ExprId at_most(ExprId place, int64_t most) { return op(LoopOp::Min, place, whole(most)); }
  ExprId pixel(ExprId row, ExprId column) { return kernel_.cast(operands_.pixel(resize_.from, row, column), math_); }

  ExprId nearest_place(const ResizeSide& side, size_t dim) {
    if (side.small == side.large) return at_most(index(dim), side.small - 1);
    const ExprId place = op(LoopOp::Mul, kernel_.cast(index(dim), math_), number(side.scale));
    return at_most(kernel_.cast(kernel_.op(LoopOp::Floor, place), Element::I32), side.small - 1);
  }
  ExprId nearest() { return pixel(nearest_place(resize_.down, rank_ - 2), nearest_place(resize_.along, rank_ - 1)); }

  // The points on both sides of a place, and how much of the second there is in it.
  struct Neighbours {
    ExprId first, second, share;  // the last two kNoExpr where the place is a point
  };
  Neighbours neighbours(const ResizeSide& side, size_t dim) {
    if (side.small == side.large) return {at_most(index(dim), side.small - 1), kNoExpr, kNoExpr};
    ExprId place = kernel_.cast(index(dim), math_);
    if (resize_.aligned) {
      place = op(LoopOp::Mul, place, number(side.scale));
    } else {
      place = op(LoopOp::Mul, op(LoopOp::Add, place, number(0.5)), number(side.scale));
      place = op(LoopOp::Sub, place, number(0.5));
      place = op(LoopOp::Select, op(LoopOp::Lt, place, number(0)), number(0), place);
    }
    const ExprId first = at_most(kernel_.cast(kernel_.op(LoopOp::Floor, place), Element::I32), side.small - 1);
    const ExprId share = op(LoopOp::Sub, place, kernel_.cast(first, math_));
    return {first, at_most(op(LoopOp::Add, first, whole(1)), side.small - 1),
            op(LoopOp::Select, op(LoopOp::Gt, share, number(1)), number(1), share)};
  }
  ExprId mixed(const Neighbours& at, ExprId first, ExprId second) {
    return op(LoopOp::Add, op(LoopOp::Mul, first, op(LoopOp::Sub, number(1), at.share)),
              op(LoopOp::Mul, second, at.share));
  }
  ExprId between() {
    const Neighbours down = neighbours(resize_.down, rank_ - 2), along = neighbours(resize_.along, rank_ - 1);
    auto of_row = [&](ExprId row) {
      const ExprId first = pixel(row, along.first);
      return along.share == kNoExpr ? first : mixed(along, first, pixel(row, along.second));
    };
    const ExprId first = of_row(down.first);
    return down.share == kNoExpr ? first : mixed(down, first, of_row(down.second));
  }

  // Of the larger picture, the point so far from the first one that this point stands for.
  ExprId larger(int64_t row, int64_t column, ExprId inside) {
    WindowPlace at{resize_.from, std::vector<int64_t>(rank_, 1), std::vector<int64_t>(rank_, 0)};
    at.step[rank_ - 2] = resize_.down.large / resize_.down.small;
    at.step[rank_ - 1] = resize_.along.large / resize_.along.small;
    at.start[rank_ - 2] = row;
    at.start[rank_ - 1] = column;
    return kernel_.cast(operands_.window(at, inside), math_);
  }

  ExprId gathered() {
    ExprId sum = number(0);
    for (int64_t row = 0; row < resize_.down.large / resize_.down.small; ++row) {
      for (int64_t column = 0; column < resize_.along.large / resize_.along.small; ++column)
        sum = op(LoopOp::Add, sum, larger(row, column, kNoExpr));
    }
    return sum;
  }

  // Twice as large: a point has three quarters of the two that lie nearest and a quarter of the next on either side,
  // where there are any. What lies beyond the outermost points is theirs alone.
  struct Share {
    ExprId inside, weight;
  };
  Share share_of(const ResizeSide& side, size_t dim, int64_t from_first) {
    const ExprId first = op(LoopOp::Eq, index(dim), whole(0));
    const ExprId last = op(LoopOp::Eq, index(dim), whole(side.small - 1));
    auto all_or = [&](ExprId outermost) { return op(LoopOp::Select, outermost, number(1), number(0.75)); };
    switch (from_first) {
      case -1:
        return {kernel_.op(LoopOp::Not, first), number(0.25)};
      case 0:
        return {kNoExpr, all_or(first)};
      case 1:
        return {kNoExpr, all_or(last)};
      default:
        return {kernel_.op(LoopOp::Not, last), number(0.25)};
    }
  }
  ExprId gathered_between() {
    ExprId sum = number(0);
    for (int64_t row = -1; row <= 2; ++row) {
      const Share down = share_of(resize_.down, rank_ - 2, row);
      ExprId of_row = number(0);
      for (int64_t column = -1; column <= 2; ++column) {
        const Share along = share_of(resize_.along, rank_ - 1, column);
        const ExprId inside = down.inside == kNoExpr    ? along.inside
                              : along.inside == kNoExpr ? down.inside
                                                        : op(LoopOp::And, down.inside, along.inside);
        of_row = op(LoopOp::Add, of_row, op(LoopOp::Mul, larger(row, column, inside), along.weight));
      }
      sum = op(LoopOp::Add, sum, op(LoopOp::Mul, of_row, down.weight));
    }
    return sum;
  }

  const Resize& resize_;
  LoopKernel& kernel_;
  Operands& operands_;
  const size_t rank_;
  const Element element_, math_;
};

}  // namespace

std::optional<NodeSpace> resize_space(const Node& node) {
  const std::optional<Resize> resize = resize_of(node);
  if (!resize) return std::nullopt;
  NodeSpace space{node.outputs[0]->type.sizes, {}};
  space.in_memory.push_back(resize->from);
  space.alone = true;
  return space;
}

std::optional<ExprId> lower_resize(const Node& node, LoopKernel& kernel, Operands& operands) {
  const std::optional<Resize> resize = resize_of(node);
  if (!resize) return std::nullopt;
  return Resizer(node, *resize, kernel, operands).lower();
}

}  // namespace firesteel
