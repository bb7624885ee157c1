// Windows of a few places, each a load of its own; ATen's kernels go through such pictures point by point.
#include "fuse/window_rules.h"

#include <limits>

#include "fuse/operand.h"
#include "fuse/pool_arguments.h"

namespace firesteel {
namespace {

std::optional<Pool> pool_of(const Node& node) {
  if (!node.op.is_aten() || node.args.empty() || node.args[0].kind != Arg::Kind::Value) return std::nullopt;
  const std::string name = node.op.str();
  const bool is_max = name == "aten.max_pool2d_with_indices", is_even = name == "aten._adaptive_avg_pool2d";
  if (!is_max && !is_even && name != "aten.avg_pool2d") return std::nullopt;
  const Type &from = node.args[0].value->type, &to = node.outputs[0]->type;
  if (!is_picture(node.args[0].value) || !has_picture_layout(to)) return std::nullopt;
  const std::optional<Pool> pool = is_even ? even_pool(from, to) : pool_at(node, 1, is_max, from, to);
  return pool && pool->down.size * pool->along.size <= kMostPlaces ? pool : std::nullopt;
}

class Windows {
 public:
  Windows(const Node& node, const Pool& pool, LoopKernel& kernel, Operands& operands)
      : node_(node), pool_(pool), kernel_(kernel), operands_(operands), rank_(node.outputs[0]->type.sizes.size()) {}

  std::vector<ExprId> lower() { return pool_.is_max ? largest() : mean(); }

 private:
  struct Place {
    ExprId value;   // in the type it is computed in
    ExprId inside;  // kNoExpr where it is inside for all points
    ExprId number;  // of the place in the picture: an i32
  };

  ExprId whole(int64_t value) { return kernel_.integer(Element::I32, value); }
  ExprId number(double value) { return kernel_.number(computed_as(element()), value); }
  Element element() const { return *element_of(node_.outputs[0]->type.dtype); }
  ExprId op(LoopOp op, ExprId a, ExprId b, ExprId c = kNoExpr) { return kernel_.op(op, a, b, c); }

  // Where the i-th place of a window lies along a side.
  ExprId position(const PoolSide& side, size_t dim, int64_t i) {
    const ExprId index = kernel_.cast(operands_.index(dim), Element::I32);
    return op(LoopOp::Add, op(LoopOp::Mul, index, whole(side.step)), whole(side.start(i)));
  }

  ExprId both(ExprId a, ExprId b) { return a == kNoExpr ? b : b == kNoExpr ? a : op(LoopOp::And, a, b); }

  ExprId inside(const PoolSide& side, size_t dim, int64_t i) {
    const int64_t first = side.start(i), last = (side.points - 1) * side.step + first;
    ExprId found = kNoExpr;
    if (first < 0) found = op(LoopOp::Ge, position(side, dim, i), whole(0));
    if (last >= side.of) found = both(found, op(LoopOp::Lt, position(side, dim, i), whole(side.of)));
    return found;
  }

  Place place(int64_t row, int64_t column) {
    Place made;
    made.inside = both(inside(pool_.down, rank_ - 2, row), inside(pool_.along, rank_ - 1, column));
    WindowPlace at{node_.args[0].value, std::vector<int64_t>(rank_, 1), std::vector<int64_t>(rank_, 0)};
    at.step[rank_ - 2] = pool_.down.step;
    at.start[rank_ - 2] = pool_.down.start(row);
    at.step[rank_ - 1] = pool_.along.step;
    at.start[rank_ - 1] = pool_.along.start(column);
    made.value = kernel_.cast(operands_.window(at, made.inside), computed_as(element()));
    made.number = op(LoopOp::Add, op(LoopOp::Mul, position(pool_.down, rank_ - 2, row), whole(pool_.along.of)),
                     position(pool_.along, rank_ - 1, column));
    return made;
  }

  template <class F>
  void each_place(F&& visit) {
    for (int64_t row = 0; row < pool_.down.size; ++row) {
      for (int64_t column = 0; column < pool_.along.size; ++column) visit(place(row, column));
    }
  }

  // The first of the largest; of NaN the last, as ATen finds it.
  std::vector<ExprId> largest() {
    ExprId best = number(-std::numeric_limits<double>::infinity()), where = kNoExpr;
    each_place([&](const Place& place) {
      ExprId taken = both(place.inside,
                          op(LoopOp::Or, op(LoopOp::Gt, place.value, best), op(LoopOp::Ne, place.value, place.value)));
      // Where nothing is larger than -inf, the first place inside.
      const ExprId first = where == kNoExpr ? place.number : op(LoopOp::Select, found_, where, place.number);
      where = where == kNoExpr ? place.number : op(LoopOp::Select, taken, place.number, first);
      found_ =
          found_ == kNoExpr || place.inside == kNoExpr ? true_or(place.inside) : op(LoopOp::Or, found_, place.inside);
      best = op(LoopOp::Select, taken, place.value, best);
    });
    return {kernel_.cast(best, element()), kernel_.cast(where, Element::I64)};
  }
  ExprId true_or(ExprId inside) { return inside == kNoExpr ? kernel_.integer(Element::Bool, 1) : inside; }

  std::vector<ExprId> mean() {
    ExprId sum = number(0);
    each_place([&](const Place& place) { sum = op(LoopOp::Add, sum, place.value); });  // 0 outside
    const ExprId count = pool_.divisor ? number(static_cast<double>(*pool_.divisor))
                                       : kernel_.cast(op(LoopOp::Mul, length(pool_.down, 2), length(pool_.along, 1)),
                                                      computed_as(element()));
    return {kernel_.cast(op(LoopOp::Div, sum, count), element())};
  }

  ExprId length(const PoolSide& side, size_t from_last) {
    const ExprId window = kernel_.cast(operands_.index(rank_ - from_last), Element::I32);
    return window_length(kernel_, side, window, pool_.counts_pad);
  }

  const Node& node_;
  const Pool& pool_;
  LoopKernel& kernel_;
  Operands& operands_;
  const size_t rank_;
  ExprId found_ = kNoExpr;  // whether a place before was inside
};

}  // namespace

std::optional<NodeSpace> window_space(const Node& node) {
  if (!pool_of(node)) return std::nullopt;
  NodeSpace space{node.outputs[0]->type.sizes, {}};
  space.in_memory.push_back(node.args[0].value);
  space.alone = true;
  return space;
}

std::vector<ExprId> lower_window(const Node& node, LoopKernel& kernel, Operands& operands) {
  const std::optional<Pool> pool = pool_of(node);
  if (!pool) return {};
  return Windows(node, *pool, kernel, operands).lower();
}

}  // namespace firesteel
