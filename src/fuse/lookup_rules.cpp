// The table of lookups, each brought to one form.
#include "fuse/lookup_rules.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "fuse/operand.h"

namespace firesteel {
namespace {

using Found = std::optional<Lookup>;

// A tensor in memory. Numbers and tensors of nothing are ATen's matter.
const Value* tensor_at(const Arg& arg) {
  if (arg.kind != Arg::Kind::Value || !is_loopable(arg.value->type) || resolve(arg.value).constant) return nullptr;
  const std::vector<Dim>& sizes = arg.value->type.sizes;
  return std::find(sizes.begin(), sizes.end(), Dim(0)) == sizes.end() ? arg.value : nullptr;
}

const Value* indices_at(const Arg& arg) {
  const Value* value = tensor_at(arg);
  return value && (value->type.dtype == at::kLong || value->type.dtype == at::kInt) ? value : nullptr;
}

std::optional<size_t> dim_at(const Node& node, size_t argument, size_t rank) {
  const Arg& arg = node.args[argument];
  if (arg.kind != Arg::Kind::Const || !arg.constant.isInt()) return std::nullopt;
  const int64_t dim = arg.constant.toInt();
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

// table (0), indices (1): a row of the table for each.
Found embedding(const Node& node) {
  const Value *table = tensor_at(node.args[0]), *indices = indices_at(node.args[1]);
  if (!table || !indices || table->type.sizes.size() != 2) return std::nullopt;
  Lookup lookup{table, {}, {std::nullopt, indices->type.sizes.size()}, {}};
  lookup.places.push_back({indices, 0, 0});
  return lookup;
}

// Neighbours from here and there in a row: a machine's gathers take longer than ATen's loop, which copies one by one.
bool scatters_rows(const Node& node, size_t dim) {
  const std::vector<Dim>& sizes = node.outputs[0]->type.sizes;
  return dim + 1 == sizes.size() && sizes.size() > 1 && sizes[dim] != Dim(1);
}

// self (0), dim (1), index (2): a list of places in that dimension.
Found index_select(const Node& node) {
  const Value *table = tensor_at(node.args[0]), *indices = indices_at(node.args[2]);
  if (!table || !indices || table->type.sizes.empty()) return std::nullopt;
  const std::optional<size_t> dim = dim_at(node, 1, table->type.sizes.size());
  if (!dim || scatters_rows(node, *dim)) return std::nullopt;
  Lookup lookup{table, {}, {}, {{indices, *dim, *dim}}};
  for (size_t d = 0; d < table->type.sizes.size(); ++d)
    lookup.along.push_back(d == *dim ? std::nullopt : std::optional(d));
  return lookup;
}

// self (0), dim (1), index (2): a place in that dimension for each point of the index.
Found gather(const Node& node) {
  const Value *table = tensor_at(node.args[0]), *indices = indices_at(node.args[2]);
  if (!table || !indices || table->type.sizes.empty() || table->type.sizes.size() != indices->type.sizes.size())
    return std::nullopt;
  Found lookup = index_select(node);
  if (lookup) lookup->places[0].first = 0;
  return lookup;
}

// self (0), indices (1): tensors, broadcast together, in some of the dimensions. Theirs stand where they do, or first
// where other dimensions lie between them.
Found index(const Node& node) {
  const Value* table = tensor_at(node.args[0]);
  if (!table || node.args[1].items.size() > table->type.sizes.size()) return std::nullopt;
  const std::vector<Arg>& items = node.args[1].items;
  Lookup lookup{table, {}, {}, {}};
  size_t rank = 0;
  for (size_t d = 0; d < items.size(); ++d) {
    if (items[d].kind == Arg::Kind::None) continue;
    const Value* indices = indices_at(items[d]);
    if (!indices) return std::nullopt;
    lookup.places.push_back({indices, d, 0, true});
    rank = std::max(rank, indices->type.sizes.size());
  }
  if (lookup.places.empty()) return std::nullopt;
  const size_t first = lookup.places.front().dim, last = lookup.places.back().dim;
  const size_t begin = last - first + 1 == lookup.places.size() ? first : 0;
  for (Lookup::Place& place : lookup.places) place.first = begin + rank - place.indices->type.sizes.size();
  size_t next = begin ? 0 : rank;  // of the result
  for (size_t d = 0, place = 0; d < table->type.sizes.size(); ++d) {
    if (place < lookup.places.size() && lookup.places[place].dim == d) {
      ++place;
      lookup.along.emplace_back(std::nullopt);
      continue;
    }
    if (begin && next == begin) next += rank;
    lookup.along.emplace_back(next++);
  }
  return lookup;
}

using LookupRules = std::unordered_map<std::string_view, Found (*)(const Node&)>;
const LookupRules& lookup_rules() {
  static const LookupRules rules = {
      {"aten.embedding", embedding},
      {"aten.index_select", index_select},
      {"aten.gather", gather},
      {"aten.index.Tensor", index},
  };
  return rules;
}

InputView view_of(const Value* value, const std::function<int32_t(const Value*)>& buffer_of) {
  const Operand operand = resolve(value);
  return {buffer_of(operand.root), value->type.sizes, value->type.strides, operand.offset};
}

}  // namespace

Found lookup_of(const Node& node) {
  if (!node.op.is_aten() || node.outputs.size() != 1 || !is_loopable(node.outputs[0]->type)) return std::nullopt;
  auto rule = lookup_rules().find(node.op.str());
  if (rule == lookup_rules().end()) return std::nullopt;
  Found lookup = rule->second(node);
  if (!lookup) return std::nullopt;
  lookup->sizes = node.outputs[0]->type.sizes;
  const bool empty = std::find(lookup->sizes.begin(), lookup->sizes.end(), Dim(0)) != lookup->sizes.end();
  return empty ? std::nullopt : lookup;
}

std::optional<NodeSpace> lookup_space(const Node& node) {
  const Found lookup = lookup_of(node);
  if (!lookup) return std::nullopt;
  NodeSpace space{lookup->sizes, {}};
  space.in_memory.push_back(lookup->table);
  for (const Lookup::Place& place : lookup->places) {
    space.aligned.emplace_back(place.indices, place.first);
    space.in_memory.push_back(place.indices);
  }
  return space;
}

std::optional<ExprId> lower_lookup(const Node& node, LoopKernel& kernel, Operands& operands) {
  const Found lookup = lookup_of(node);
  if (!lookup) return std::nullopt;
  const Type& table = lookup->table->type;
  ExprId further = kNoExpr;
  for (const Lookup::Place& place : lookup->places) {
    ExprId index = kernel.cast(operands.value(place.indices), Element::I64);
    if (place.from_end) {
      const ExprId zero = kernel.integer(Element::I64, 0);
      const ExprId size = kernel.size(table.sizes[place.dim]);
      index = kernel.op(LoopOp::Select, kernel.op(LoopOp::Lt, index, zero), kernel.op(LoopOp::Add, index, size), index);
    }
    const ExprId stride = kernel.size(table.strides[place.dim]);
    const ExprId step = kernel.op(LoopOp::Mul, index, stride);
    further = further == kNoExpr ? step : kernel.op(LoopOp::Add, further, step);
  }
  return operands.look_up(*lookup, further);
}

IndexCheck check_of(const Node& node, const Lookup& lookup, const std::function<int32_t(const Value*)>& buffer_of) {
  IndexCheck check{{}, *node.op.aten, {}};
  for (const Lookup::Place& place : lookup.places) {
    const Dim& size = lookup.table->type.sizes[place.dim];
    check.bounds.push_back({view_of(place.indices, buffer_of), place.from_end ? size * -1 : Dim(0), size + -1});
  }
  for (const Arg& arg : node.args) {
    IndexCheck::Argument argument;
    argument.is_list = arg.kind == Arg::Kind::List;
    if (arg.kind == Arg::Kind::Const) argument.constant = arg.constant;
    if (arg.kind == Arg::Kind::Value) argument.tensors.emplace_back(view_of(arg.value, buffer_of));
    for (const Arg& item : arg.items) {
      argument.tensors.push_back(item.kind == Arg::Kind::Value ? std::optional(view_of(item.value, buffer_of))
                                                               : std::nullopt);
    }
    check.arguments.push_back(std::move(argument));
  }
  return check;
}

}  // namespace firesteel
