// Reads the arguments of pools.
#include "fuse/pool_arguments.h"

#include <algorithm>
#include <limits>

#include "fuse/operand.h"

namespace firesteel {
namespace {

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

int64_t from_last(const Type& type, size_t dim) { return type.sizes[type.sizes.size() - dim].number(); }

}  // namespace

bool has_picture_layout(const Type& type) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const size_t rank = type.sizes.size();
  if (!is_loopable(type) || rank < 3 || type.strides[rank - 1] != Dim(1)) return false;
  for (const Dim& size : type.sizes) {
    if (!size.is_number() || size.number() <= 0 || size.number() >= kMost) return false;
  }
  return from_last(type, 2) * from_last(type, 1) < kMost && type.strides[rank - 2].is_number();
}

bool is_picture(const Value* value) {
  return has_picture_layout(value->type) && is_float(*element_of(value->type.dtype)) && !resolve(value).constant;
}

std::optional<Pool> pool_at(const Node& node, size_t first, bool is_max, const Type& from, const Type& to) {
  Pool pool;
  pool.is_max = is_max;
  const auto size = pair_at(node, first, {0, 0});
  const auto step = size ? pair_at(node, first + 1, *size) : std::nullopt;
  const auto pad = pair_at(node, first + 2, {0, 0});
  const auto dilation = is_max ? pair_at(node, first + 3, {1, 1}) : std::pair{int64_t{1}, int64_t{1}};
  if (!size || !step || !pad || !dilation || size->first < 1 || size->second < 1) return std::nullopt;
  pool.down = {size->first, step->first, pad->first, dilation->first, from_last(from, 2), from_last(to, 2)};
  pool.along = {size->second, step->second, pad->second, dilation->second, from_last(from, 1), from_last(to, 1)};
  if (is_max) return pool;
  pool.counts_pad = !is_false(node, first + 4);
  const Arg& divisor = node.args.at(first + 5);
  if (divisor.kind == Arg::Kind::Const && divisor.constant.isInt()) pool.divisor = divisor.constant.toInt();
  if (divisor.kind != Arg::Kind::None && !pool.divisor) return std::nullopt;
  return pool;
}

std::optional<Pool> even_pool(const Type& from, const Type& to) {
  Pool pool;
  for (auto [side, dim] : {std::pair(&pool.down, 2), std::pair(&pool.along, 1)}) {
    side->of = from_last(from, dim);
    side->points = from_last(to, dim);
    if (side->of % side->points != 0) return std::nullopt;
    side->size = side->step = side->of / side->points;
  }
  return pool;
}

ExprId window_length(LoopKernel& kernel, const PoolSide& side, ExprId window, bool counts_pad) {
  auto whole = [&](int64_t value) { return kernel.integer(Element::I32, value); };
  const int64_t last = (side.points - 1) * side.step - side.pad, end = counts_pad ? side.of + side.pad : side.of;
  if (last + side.size <= end && (counts_pad || side.pad == 0)) return whole(side.size);
  const ExprId start = kernel.op(LoopOp::Add, kernel.op(LoopOp::Mul, window, whole(side.step)), whole(-side.pad));
  const ExprId stop = kernel.op(LoopOp::Min, kernel.op(LoopOp::Add, start, whole(side.size)), whole(end));
  return kernel.op(LoopOp::Sub, stop, counts_pad ? start : kernel.op(LoopOp::Max, start, whole(0)));
}

}  // namespace firesteel
