// The table of operators that put pieces together, each brought to one form.
#include "fuse/piece_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "fuse/operand.h"
#include "fuse/size_math.h"

namespace firesteel {
namespace {

// Each point is in at most one piece; what is in none is the number.
struct Pieces {
  std::vector<Piece> pieces;
  at::Scalar rest = 0;
};
using Found = std::optional<Pieces>;

constexpr size_t kMostPieces = 4;  // each point looks at all of them

std::optional<int64_t> whole_at(const Node& node, size_t argument) {
  const Arg& arg = node.args[argument];
  if (arg.kind != Arg::Kind::Const || !arg.constant.isInt()) return std::nullopt;
  return arg.constant.toInt();
}

std::optional<size_t> dim_at(const Node& node, size_t argument, size_t rank) {
  const std::optional<int64_t> dim = whole_at(node, argument);
  if (!dim) return std::nullopt;
  return static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim);
}

Piece plain_piece(const Value* value) {
  Piece piece{value, {}, {}, {}};
  piece.along.resize(value->type.sizes.size());
  std::iota(piece.along.begin(), piece.along.end(), size_t{0});
  piece.start.assign(value->type.sizes.size(), 0);
  return piece;
}

// Without one dimension of the result, in which it lies at `place`.
Piece slab(const Value* value, size_t dim, const Dim& place) {
  Piece piece = plain_piece(value);
  for (size_t& along : piece.along) along += along >= dim;
  piece.ranges.push_back({dim, place, place + Dim(1)});
  return piece;
}

// tensors (0), dim (1)
template <bool stacks>
Found joined(const Node& node) {
  const std::vector<Arg>& items = node.args[0].items;
  const std::optional<size_t> dim = dim_at(node, 1, node.outputs[0]->type.sizes.size());
  if (!dim || items.empty() || items.size() > kMostPieces) return std::nullopt;
  Pieces found;
  Dim begin = 0;
  for (const Arg& item : items) {
    if (item.kind != Arg::Kind::Value || item.value->type.dtype != node.outputs[0]->type.dtype) return std::nullopt;
    if (stacks) {
      found.pieces.push_back(slab(item.value, *dim, begin));
      begin = begin + Dim(1);
      continue;
    }
    if (item.value->type.sizes.size() != node.outputs[0]->type.sizes.size()) return std::nullopt;
    const Dim& size = item.value->type.sizes[*dim];
    Piece piece = plain_piece(item.value);
    piece.start[*dim] = begin;
    piece.ranges.push_back({*dim, begin, begin + size});
    found.pieces.push_back(std::move(piece));
    begin = begin + size;
  }
  return found;
}

// Whether eager takes the number for a tensor of that type without a word.
bool holds(Element type, const at::Scalar& value) {
  if (type == Element::F16 || type == Element::BF16 || type == Element::F32) {
    const double most = type == Element::F16 ? 65504 : type == Element::BF16 ? 0x1.fep127 : 0x1.fffffep127;
    return !std::isfinite(value.toDouble()) || std::abs(value.toDouble()) <= most;
  }
  if (is_float(type)) return true;
  const double number = value.toDouble(), most = type == Element::Bool ? 1 : 127;  // in all integer types
  return number >= 0 && number <= most && std::trunc(number) == number;
}

// self (0), pad (1): before and after, last dimension first; value (2)
Found padded(const Node& node) {
  if (node.args[0].kind != Arg::Kind::Value || node.args[1].kind != Arg::Kind::Const ||
      !node.args[1].constant.isIntList() || node.args[2].kind != Arg::Kind::Const ||
      !node.args[2].constant.isScalar() || node.args[2].constant.isComplexDouble())
    return std::nullopt;
  const std::vector<int64_t> pad = node.args[1].constant.toIntVector();
  Piece piece = plain_piece(node.args[0].value);
  const size_t rank = piece.along.size();
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    const size_t dim = rank - 1 - i / 2;
    piece.start[dim] = pad[i];
    piece.ranges.push_back({dim, pad[i], piece.value->type.sizes[dim] + pad[i]});
  }
  const at::Scalar value = node.args[2].constant.toScalar();
  if (!holds(*element_of(piece.value->type.dtype), value)) return std::nullopt;
  return Pieces{{std::move(piece)}, value};
}

// grad (0), sizes (1), dim (2), start (3), end (4), step (5)
Found slice_backward(const Node& node) {
  const std::optional<size_t> dim = dim_at(node, 2, node.outputs[0]->type.sizes.size());
  std::optional<int64_t> start = whole_at(node, 3);
  if (!dim || !start || whole_at(node, 5) != 1 || node.args[0].kind != Arg::Kind::Value) return std::nullopt;
  const Dim& size = node.outputs[0]->type.sizes[*dim];
  const Dim first = *start < 0 ? size + *start : Dim(*start);
  Piece piece = plain_piece(node.args[0].value);
  piece.start[*dim] = *start == 0 ? first : Dim::make(DimOp::Min, Dim::make(DimOp::Max, first, 0), size);
  piece.ranges.push_back({*dim, piece.start[*dim], piece.start[*dim] + piece.value->type.sizes[*dim]});
  return Pieces{{std::move(piece)}};
}

// grad (0), sizes (1), dim (2), index (3)
Found select_backward(const Node& node) {
  const std::optional<size_t> dim = dim_at(node, 2, node.outputs[0]->type.sizes.size());
  const std::optional<int64_t> place = whole_at(node, 3);
  if (!dim || !place || node.args[0].kind != Arg::Kind::Value) return std::nullopt;
  const Dim& size = node.outputs[0]->type.sizes[*dim];
  return Pieces{{slab(node.args[0].value, *dim, *place < 0 ? size + *place : Dim(*place))}};
}

using PieceRules = std::unordered_map<std::string_view, Found (*)(const Node&)>;
const PieceRules& piece_rules() {
  static const PieceRules rules = {
      {"aten.cat", joined<false>},
      {"aten.stack", joined<true>},
      {"aten.constant_pad_nd", padded},
      {"aten.slice_backward", slice_backward},
      {"aten.select_backward", select_backward},
  };
  return rules;
}

bool is_plain(const Type& type) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  return is_loopable(type) && std::all_of(type.sizes.begin(), type.sizes.end(), [](const Dim& size) {
           return !size.is_number() || (size.number() > 0 && size.number() < kLargest);
         });
}

// Tensors of one type, none of them empty.
Found pieces_of(const Node& node) {
  if (!node.op.is_aten() || node.outputs.size() != 1) return std::nullopt;
  auto rule = piece_rules().find(node.op.str());
  if (rule == piece_rules().end()) return std::nullopt;
  bool plain = is_plain(node.outputs[0]->type);
  node.each_input([&](const Value* value) {
    plain = plain && is_plain(value->type) && value->type.dtype == node.outputs[0]->type.dtype;
  });
  return plain ? rule->second(node) : std::nullopt;
}

ExprId is_inside(const Piece& piece, const std::vector<Dim>& sizes, LoopKernel& kernel, Operands& operands) {
  ExprId inside = kNoExpr;
  auto add = [&](ExprId bound) { inside = inside == kNoExpr ? bound : kernel.op(LoopOp::And, inside, bound); };
  for (const Piece::Range& range : piece.ranges) {
    const ExprId at = kernel.cast(operands.index(range.dim), Element::I32);
    auto number = [&](const Dim& value) {
      if (value.is_number()) return kernel.integer(Element::I32, value.number());
      return kernel.cast(kernel.size(value), Element::I32);
    };
    auto below = [](const Dim& a, const Dim& b) {  // or not known not to be
      return a.is_number() && b.is_number() ? a.number() < b.number() : !surely_equal(a, b);
    };
    if (below(0, range.begin)) add(kernel.op(LoopOp::Ge, at, number(range.begin)));
    if (below(range.end, sizes[range.dim])) add(kernel.op(LoopOp::Lt, at, number(range.end)));
  }
  return inside == kNoExpr ? kernel.integer(Element::Bool, 1) : inside;
}

ExprId number_of(const at::Scalar& value, Element type, LoopKernel& kernel) {
  const Element math = computed_as(type);
  if (!is_float(type))
    return kernel.cast(kernel.integer(math, math == Element::Bool ? value.to<bool>() : value.to<int64_t>()), type);
  return kernel.cast(kernel.number(math, math == Element::F32 ? value.to<float>() : value.to<double>()), type);
}

}  // namespace

std::optional<NodeSpace> piece_space(const Node& node) {
  const Found found = pieces_of(node);
  if (!found) return std::nullopt;
  NodeSpace space{node.outputs[0]->type.sizes, {}};
  for (const Piece& piece : found->pieces) space.moved.push_back(piece.value);
  return space;
}

std::optional<ExprId> lower_pieces(const Node& node, LoopKernel& kernel, Operands& operands) {
  const Found found = pieces_of(node);
  if (!found) return std::nullopt;
  const std::vector<Dim>& sizes = node.outputs[0]->type.sizes;
  ExprId result = number_of(found->rest, *element_of(node.outputs[0]->type.dtype), kernel);
  for (const Piece& piece : found->pieces) {
    const ExprId inside = is_inside(piece, sizes, kernel, operands);
    result = kernel.op(LoopOp::Select, inside, operands.piece(piece, inside), result);
  }
  return result;
}

}  // namespace firesteel
