// Asks the tables of rules.
#include "fuse/node_rules.h"

#include <algorithm>

#include "base/error.h"
#include "fuse/lookup_rules.h"
#include "fuse/piece_rules.h"
#include "fuse/resize_rules.h"
#include "fuse/row_plan.h"
#include "fuse/row_rules.h"
#include "fuse/size_math.h"
#include "fuse/window_gradients.h"
#include "fuse/window_rules.h"

namespace firesteel {
namespace {

const RowRule* row_rule(const Node& node) {
  if (!node.op.is_aten()) return nullptr;
  const std::string name = node.op.str();
  for (const RowRules* rules : {&reduction_rules(), &norm_rules(), &channel_rules(), &running_rules()}) {
    if (auto found = rules->find(name); found != rules->end()) return &found->second;
  }
  return nullptr;
}

bool is_empty(const Type& type) {
  return std::any_of(type.sizes.begin(), type.sizes.end(), [](const Dim& size) { return size == Dim(0); });
}

// Every result is of all points, or of rows: with the reduced dimensions of size 1, or without them. Some operators
// also give tensors of nothing.
bool results_fit(const Node& node, const NodeSpace& space) {
  for (const auto& output : node.outputs) {
    if (!output->type.is_tensor() || is_empty(output->type)) continue;
    const std::vector<Dim>& sizes = output->type.sizes;
    std::vector<Dim> kept, dropped;
    for (size_t d = 0; d < space.sizes.size(); ++d) {
      kept.push_back(space.reduces() && space.reduced[d] ? Dim(1) : space.sizes[d]);
      if (!space.reduces() || !space.reduced[d]) dropped.push_back(space.sizes[d]);
    }
    if (sizes != space.sizes && sizes != kept && sizes != dropped) return false;
  }
  return true;
}

bool is_open(const std::vector<Dim>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Dim& size) { return !size.is_number(); });
}

// Every operand is plainly broadcast to the space. Open sizes that are equal for a reason not seen here would be taken
// for ones to repeat.
bool operands_fit(const Node& node, const NodeSpace& space, const Value* table = nullptr) {
  bool fit = true;
  node.each_input([&](const Value* operand) {
    const std::vector<Dim>& sizes = operand->type.sizes;
    if (operand == table || (!is_open(sizes) && !is_open(space.sizes))) return;
    const size_t first = space.first_dim(operand);
    fit = fit && sizes.size() <= space.sizes.size() && first + sizes.size() <= space.sizes.size();
    for (size_t d = 0; fit && d < sizes.size(); ++d) fit = is_number(sizes[d], 1) || sizes[d] == space.sizes[first + d];
  });
  return fit;
}

// Many stretches of memory of less than a vector each. Lookups and pieces do not let loops be joined, so that each
// stretch would be a loop of its own: ATen is faster.
bool has_short_runs(const Type& type) {
  constexpr int64_t kShort = 16, kMany = 256;
  int64_t run = 1;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.strides[d] == Dim(1) && !is_number(type.sizes[d], 1)) run = estimate(type.sizes[d]);
  }
  return run < kShort && run > 0 && estimate(product(type.sizes)) / run > kMany;
}

std::optional<NodeSpace> row_space(const Node& node, const RowRule& rule) {
  const Arg& over = node.args[rule.over];
  if (over.kind != Arg::Kind::Value || !is_loopable(over.value->type)) return std::nullopt;
  NodeSpace space;
  space.sizes = over.value->type.sizes;
  space.walk = rule.walk;
  std::optional<std::vector<bool>> dims = rule.dims(node, space.sizes.size());
  if (!dims) return std::nullopt;
  const bool reduces = std::find(dims->begin(), dims->end(), true) != dims->end();
  if (!reduces && rule.dims != no_dims) return std::nullopt;
  if (reduces) space.reduced = std::move(*dims);
  for (auto [argument, first] : rule.aligned) {
    const Arg& arg = node.args[argument];
    if (arg.kind != Arg::Kind::Value || arg.value->type.sizes.empty()) continue;
    if (first + arg.value->type.sizes.size() > space.sizes.size()) return std::nullopt;
    space.aligned.emplace_back(arg.value, first);
  }
  // Rows of one point are copies, and no points need no code: ATen's matter.
  const Dim length = space.row_length();
  if ((reduces && length.is_number() && length.number() < 2) || is_number(space.rows(), 0) ||
      !results_fit(node, space) || !operands_fit(node, space))
    return std::nullopt;
  return space;
}

RowResults lower_row(const Node& node, const RowRule& rule, const Dim& row_length, LoopKernel& kernel,
                     Operands& operands) {
  NodeBuilder builder(node, kernel, operands);
  if (!builder.usable()) return std::nullopt;
  RowResults results = rule.lower(builder, row_length);
  if (!results) return std::nullopt;
  for (size_t i = 0; i < results->size(); ++i) {
    if ((*results)[i] != kNoExpr) (*results)[i] = builder.finish((*results)[i], i);
  }
  return results;
}

}  // namespace

bool NodeSpace::wants_in_memory(const Value* operand) const {
  return std::find(in_memory.begin(), in_memory.end(), operand) != in_memory.end();
}

bool NodeSpace::is_moved(const Value* operand) const {
  return std::find(moved.begin(), moved.end(), operand) != moved.end();
}

size_t NodeSpace::first_dim(const Value* operand) const {
  for (auto [value, first] : aligned) {
    if (value == operand) return first;
  }
  return sizes.size() - operand->type.sizes.size();
}

Dim NodeSpace::row_length() const {
  Dim length = 1;
  for (size_t d = 0; d < reduced.size(); ++d) length = reduced[d] ? length * sizes[d] : length;
  return length;
}

Dim NodeSpace::rows() const {
  Dim count = 1;
  for (size_t d = 0; d < sizes.size(); ++d) count = !reduced.empty() && reduced[d] ? count : count * sizes[d];
  return count;
}

std::optional<NodeSpace> node_space(const Node& node) {
  if (is_pointwise(node)) {
    NodeSpace space{node.outputs[0]->type.sizes, {}};
    return operands_fit(node, space) ? std::optional(std::move(space)) : std::nullopt;
  }
  const RowRule* rule = row_rule(node);
  if (!rule) {
    std::optional<NodeSpace> space = lookup_space(node);
    if (space && !operands_fit(node, *space, space->in_memory.front())) return std::nullopt;
    if (!space) space = piece_space(node);
    if (!space) space = window_space(node);
    if (!space) space = window_gradient_space(node);
    if (!space) space = resize_space(node);
    return space && !has_short_runs(node.outputs[0]->type) ? space : std::nullopt;
  }
  std::optional<NodeSpace> space = row_space(node, *rule);
  if (!space) return std::nullopt;
  LoopKernel scratch;
  NoOperands operands(scratch);
  if (!lower_row(node, *rule, space->row_length(), scratch, operands)) return std::nullopt;
  return space;
}

std::vector<ExprId> lower_node(const Node& node, LoopKernel& kernel, Operands& operands) {
  if (const RowRule* rule = row_rule(node)) {
    RowResults results = lower_row(node, *rule, row_space(node, *rule)->row_length(), kernel, operands);
    FS_CHECK(results, "`{}` was put in a group and has no loop form", node.op.str());
    return *results;
  }
  if (std::vector<ExprId> results = lower_window(node, kernel, operands); !results.empty()) return results;
  std::optional<ExprId> result = lower_lookup(node, kernel, operands);
  if (!result) result = lower_pieces(node, kernel, operands);
  if (!result) result = lower_window_gradient(node, kernel, operands);
  if (!result) result = lower_resize(node, kernel, operands);
  if (!result) result = lower_pointwise(node, kernel, operands);
  FS_CHECK(result, "`{}` was put in a group and has no loop form", node.op.str());
  return {*result};
}

}  // namespace firesteel
