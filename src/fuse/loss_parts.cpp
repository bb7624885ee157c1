// Builds the parts of a loss.
#include "fuse/loss_parts.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>

#include "fuse/operand.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

constexpr int64_t kMean = 1;

const c10::OperatorHandle& op_named(const char* name, const char* overload = "") {
  static std::unordered_map<std::string, c10::OperatorHandle> found;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const std::string key = std::string(name) + "." + overload;
  auto known = found.find(key);
  if (known == found.end())
    known = found.emplace(key, c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)).first;
  return known->second;
}

bool is_float_matrix(const Arg& arg) {
  if (arg.kind != Arg::Kind::Value || !is_loopable(arg.value->type)) return false;
  const Type& type = arg.value->type;
  return type.sizes.size() == 2 && (type.dtype == at::kFloat || type.dtype == at::kDouble) && type.sizes[0] != Dim(0) &&
         type.sizes[1].is_number() && type.sizes[1].number() > 1;
}

// self (0), target (1), weight (2), reduction (3), ignored target (4): the loss, and the number of targets.
bool has_parts(const Node& node) {
  if (!is_aten_op(node, "nll_loss_forward") || node.outputs.size() != 2 || !is_float_matrix(node.args[0])) return false;
  const Arg &target = node.args[1], &reduction = node.args[3], &ignored = node.args[4];
  return target.kind == Arg::Kind::Value && is_loopable(target.value->type) && target.value->type.dtype == at::kLong &&
         target.value->type.sizes.size() == 1 && node.args[2].kind == Arg::Kind::None &&
         reduction.kind == Arg::Kind::Const && reduction.constant.isInt() && reduction.constant.toInt() != 0 &&
         ignored.kind == Arg::Kind::Const && ignored.constant.isInt() &&
         std::in_range<int32_t>(ignored.constant.toInt());
}

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = false;
    std::vector<std::unique_ptr<Node>> nodes = std::exchange(graph_.nodes, {});
    for (auto& node : nodes) {
      if (node->op.is_aten() && has_parts(*node)) {
        split(*node);
        replaced_.push_back(std::move(node));  // its values are gone, but names of it may be read until the end
        changed = true;
      } else {
        graph_.nodes.push_back(std::move(node));
      }
    }
    return changed;
  }

 private:
  Node* add(const Node& like, const c10::OperatorHandle& op, std::vector<Arg> args) {
    Node* node = graph_.add_aten(op, std::move(args));
    node->source = like.source;
    node->phase = like.phase;
    node->returns.push_back({});
    return node;
  }

  static void give(Node* maker, std::unique_ptr<Value> value) {
    value->def = maker;
    maker->outputs.push_back(std::move(value));
  }

  void split(Node& node) {
    Value *rows = node.args[0].value, *target = node.args[1].value;
    const Arg ignored = node.args[4];
    const int64_t classes = rows->type.sizes[1].number();
    const bool mean = node.args[3].constant.toInt() == kMean;
    Value* checked = add(node, op_named("firesteel::checked_targets"), {target, Arg::of_const(classes), ignored})
                         ->add_output(target->type);
    Type of_rows = rows->type;
    of_rows.sizes = {rows->type.sizes[0]};
    of_rows.strides = {Dim(1)};
    Value* picked = add(node, op_named("firesteel::picked"), {rows, checked, ignored})->add_output(of_rows);
    Type truths = of_rows;
    truths.dtype = at::kBool;
    Value* valid = add(node, op_named("aten::ne", "Scalar"), {checked, ignored})->add_output(truths);
    const Arg dtype = Arg::of_const(static_cast<int64_t>(rows->type.dtype));
    Node* count = add(node, op_named("aten::sum"), {valid, dtype});
    Value* number = node.outputs[1].get();
    give(count, std::move(node.outputs[1]));
    Node* sum = add(node, op_named("aten::sum"), {picked, Arg()});
    if (mean) {
      Value* total = sum->add_output(node.outputs[0]->type);
      sum = add(node, op_named("aten::div", "Tensor"), {total, number});
    }
    give(sum, std::move(node.outputs[0]));
  }

  Graph& graph_;
  std::vector<std::unique_ptr<Node>> replaced_;
};

}  // namespace

bool split_losses(Graph& graph) { return Splitter(graph).run(); }

}  // namespace firesteel
