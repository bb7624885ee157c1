// Which products go to oneDNN, and how they are written for it: it takes the second matrix transposed, as Linear has
// it.
#include "fuse/matmul_choice.h"

#include <cstdlib>
#include <string_view>

#include <ATen/Context.h>

#include "base/error.h"
#include "graph/passes/pass.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

// Below it, what a call of oneDNN costs by itself is more than it gains: see docs/native.md.
constexpr int64_t kSmallestProduct = 8'000'000;

enum class Choice { Aten, OneDnnWhereItPays, OneDnn };

Choice choice() {
  const char* set = std::getenv("FIRESTEEL_MATMUL");
  const std::string_view asked = set ? set : "";
  if (asked == "aten" || !at::globalContext().userEnabledMkldnn()) return Choice::Aten;
  if (asked == "onednn") return Choice::OneDnn;
  if (!asked.empty()) FS_RAISE(Error, "FIRESTEEL_MATMUL is '{}'\n  try: aten or onednn, or leave it unset", asked);
  return __builtin_cpu_is("amd") ? Choice::OneDnnWhereItPays : Choice::Aten;
}

const c10::OperatorHandle* linear() {
  static const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  return found ? &*found : nullptr;
}

// Sizes of a float32 matrix on the CPU; empty for anything else.
std::vector<int64_t> matrix(const Arg& arg, size_t rank = 2) {
  if (arg.kind != Arg::Kind::Value || !arg.value->type.is_tensor()) return {};
  const Type& type = arg.value->type;
  if (type.dtype != at::kFloat || !type.device.is_cpu() || type.sizes.size() != rank) return {};
  std::vector<int64_t> sizes;
  for (const Dim& size : type.sizes) {
    if (!size.is_number()) return {};
    sizes.push_back(size.number());
  }
  return sizes;
}

bool is_one(const Arg& arg) {
  return arg.kind == Arg::Kind::Const && arg.constant.isScalar() && arg.constant.toScalar().equal(1);
}

// What the matrix is the transpose of, where the graph says so.
Value* transposed(const Value* matrix) {
  const Node* def = matrix->def;
  return def && is_aten_op(*def, "t") && def->args[0].value->type.sizes.size() == 2 ? def->args[0].value : nullptr;
}

class Chooser {
 public:
  Chooser(Graph& graph, Choice choice) : graph_(graph), choice_(choice) {}

  bool run() {
    std::vector<std::unique_ptr<Node>> nodes = std::exchange(graph_.nodes, {});
    for (auto& node : nodes) {
      if (node->op.is_aten()) consider(*node);
      graph_.nodes.push_back(std::move(node));
    }
    return changed_;
  }

 private:
  void consider(Node& node) {
    const bool plain = is_aten_op(node, "mm"), with_bias = is_aten_op(node, "addmm");
    if ((!plain && !with_bias) || node.outputs.size() != 1) return;
    const size_t first = with_bias ? 1 : 0;
    const std::vector<int64_t> a = matrix(node.args[first]), b = matrix(node.args[first + 1]);
    if (a.empty() || b.empty() || a[0] * a[1] * b[1] == 0) return;
    if (choice_ != Choice::OneDnn && a[0] * a[1] * b[1] < kSmallestProduct) return;
    if (with_bias && (matrix(node.args[0], 1) != std::vector{b[1]} || !is_one(node.args[3]) || !is_one(node.args[4])))
      return;
    Value* weight = transposed(node.args[first + 1].value);
    if (!weight) weight = transpose(node, node.args[first + 1].value);
    node.args = {node.args[first],
                 weight,
                 with_bias ? node.args[0] : Arg(),
                 Arg::of_const("none"),
                 Arg::of_const(c10::List<std::optional<at::Scalar>>()),
                 Arg::of_const("")};
    node.op.aten.emplace(*linear());
    changed_ = true;
  }

  Value* transpose(const Node& user, Value* matrix) {
    static const auto t = c10::Dispatcher::singleton().findSchemaOrThrow("aten::t", "");
    Node* node = graph_.add_aten(t, {matrix});
    node->source = user.source;
    node->phase = user.phase;
    node->returns.push_back({});
    Type type = matrix->type;
    std::swap(type.sizes[0], type.sizes[1]);
    std::swap(type.strides[0], type.strides[1]);
    return node->add_output(std::move(type));
  }

  Graph& graph_;
  Choice choice_;
  bool changed_ = false;
};

}  // namespace

bool may_use_onednn() {
  const char* set = std::getenv("FIRESTEEL_MATMUL");
  return linear() && at::globalContext().userEnabledMkldnn() && !(set && std::string_view(set) == "aten");
}

void check_matmul_setting() { choice(); }

bool choose_matmuls(Graph& graph) {
  const Choice chosen = choice();
  if (chosen == Choice::Aten || !linear() || !Chooser(graph, chosen).run()) return false;
  run_pass("dead_code", graph);
  return true;
}

}  // namespace firesteel
