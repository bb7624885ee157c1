// Windows of a few places, each a load of its own; ATen's kernels go through such pictures point by point.
#include "fuse/window_rules.h"

#include <limits>

#include "fuse/operand.h"

namespace firesteel {
namespace {

constexpr int64_t kMostPlaces = 16;

struct Side {
  int64_t size = 1, step = 1, pad = 0, dilation = 1;
  int64_t of = 0, points = 0;  // the input's length, and the result's
};

struct Pool {
  bool is_max = false;
  Side down, along;
  bool counts_pad = true;
  std::optional<int64_t> divisor;
};

// One number for both sides, or two; none: `otherwise`.
std::optional<std::pair<int64_t, int64_t>> pair_at(const Node& node, size_t argument,
                                                   std::pair<int64_t, int64_t> otherwise) {
  const Arg& arg = node.args.at(argument);
  if (arg.kind == Arg::Kind::None) return otherwise;
  if (arg.kind != Arg::Kind::Const || !arg.constant.isIntList()) return std::nullopt;
  const std::vector<int64_t> numbers = arg.constant.toIntVector();
  if (numbers.empty()) return otherwise;
  return std::pair(numbers.front(), numbers.back());
}

bool is_false(const Node& node, size_t argument) {
  const Arg& arg = node.args.at(argument);
  return arg.kind == Arg::Kind::Const && arg.constant.isBool() && !arg.constant.toBool();
}

bool has_numbers(const Type& type) {
  return is_loopable(type) && type.sizes.size() >= 3 &&
         std::all_of(type.sizes.begin(), type.sizes.end(), [](const Dim& size) {
           return size.is_number() && size.number() > 0 && size.number() < std::numeric_limits<int32_t>::max();
         });
}

// self (0), kernel_size (1), stride (2), padding (3); of max_pool2d dilation (4), ceil_mode (5); of avg_pool2d
// ceil_mode (4), count_include_pad (5), divisor_override (6)
std::optional<Pool> pool_of(const Node& node) {
  if (!node.op.is_aten()) return std::nullopt;
  const std::string name = node.op.str();
  Pool pool;
  pool.is_max = name == "aten.max_pool2d_with_indices";
  if ((!pool.is_max && name != "aten.avg_pool2d") || node.args[0].kind != Arg::Kind::Value) return std::nullopt;
  const Type &from = node.args[0].value->type, &to = node.outputs[0]->type;
  const std::optional<Element> element = element_of(from.dtype);
  if (!has_numbers(from) || !has_numbers(to) || !is_float(*element) || resolve(node.args[0].value).constant)
    return std::nullopt;
  const size_t rank = from.sizes.size();
  // Pictures with their channels side by side go fast in ATen.
  if (to.strides[rank - 1] != Dim(1) || from.strides[rank - 1] != Dim(1) ||
      from.sizes[rank - 2].number() * from.sizes[rank - 1].number() >= std::numeric_limits<int32_t>::max())
    return std::nullopt;
  const auto size = pair_at(node, 1, {0, 0});
  const auto step = size ? pair_at(node, 2, *size) : std::nullopt;
  const auto pad = pair_at(node, 3, {0, 0}), dilation = pool.is_max ? pair_at(node, 4, {1, 1}) : std::pair{1L, 1L};
  if (!size || !step || !pad || !dilation || size->first * size->second > kMostPlaces ||
      size->first * size->second < 1 || !is_false(node, pool.is_max ? 5 : 4))
    return std::nullopt;
  pool.down = {size->first,
               step->first,
               pad->first,
               dilation->first,
               from.sizes[rank - 2].number(),
               to.sizes[rank - 2].number()};
  pool.along = {size->second,
                step->second,
                pad->second,
                dilation->second,
                from.sizes[rank - 1].number(),
                to.sizes[rank - 1].number()};
  if (pool.is_max) return pool;
  pool.counts_pad = !is_false(node, 5);
  const Arg& divisor = node.args.at(6);
  if (divisor.kind == Arg::Kind::Const && divisor.constant.isInt()) pool.divisor = divisor.constant.toInt();
  if (divisor.kind != Arg::Kind::None && !pool.divisor) return std::nullopt;
  return pool;
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
  ExprId position(const Side& side, size_t dim, int64_t i) {
    const ExprId index = kernel_.cast(operands_.index(dim), Element::I32);
    return op(LoopOp::Add, op(LoopOp::Mul, index, whole(side.step)), whole(start(side, i)));
  }
  static int64_t start(const Side& side, int64_t i) { return i * side.dilation - side.pad; }

  ExprId both(ExprId a, ExprId b) { return a == kNoExpr ? b : b == kNoExpr ? a : op(LoopOp::And, a, b); }

  ExprId inside(const Side& side, size_t dim, int64_t i) {
    const int64_t first = start(side, i), last = (side.points - 1) * side.step + first;
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
    at.start[rank_ - 2] = start(pool_.down, row);
    at.step[rank_ - 1] = pool_.along.step;
    at.start[rank_ - 1] = start(pool_.along, column);
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
    ExprId sum = number(0), count = number(0);
    each_place([&](const Place& place) {
      sum = op(LoopOp::Add, sum, place.value);  // 0 outside
      if (place.inside == kNoExpr) {
        count = op(LoopOp::Add, count, number(1));
      } else {
        count = op(LoopOp::Add, count, op(LoopOp::Select, place.inside, number(1), number(0)));
      }
    });
    const auto places = static_cast<double>(pool_.down.size * pool_.along.size);
    const bool all = pool_.counts_pad || (pool_.down.pad == 0 && pool_.along.pad == 0);
    if (pool_.divisor || all) count = number(pool_.divisor ? static_cast<double>(*pool_.divisor) : places);
    return {kernel_.cast(op(LoopOp::Div, sum, count), element())};
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
