// Which products and convolutions are worth a look at run time.
#include "fuse/library_choice.h"

#include <cstdlib>
#include <string_view>

#include <ATen/Context.h>

#include "base/error.h"
#include "graph/passes/pass.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

// Multiplications, as far as sizes are known: below it no library gains what a call costs.
constexpr int64_t kSmallestProduct = 1'000'000;

enum class Choice { Aten, Fastest, OneDnn };

Choice choice() {
  const char* set = std::getenv("FIRESTEEL_MATMUL");
  const std::string_view asked = set ? set : "";
  if (!asked.empty() && asked != "aten" && asked != "onednn")
    FS_RAISE(Error, "FIRESTEEL_MATMUL is '{}'\n  try: aten or onednn, or leave it unset", asked);
  static const bool has_onednn = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""}).has_value();
  if (asked == "aten" || !has_onednn || !at::globalContext().userEnabledMkldnn()) return Choice::Aten;
  return asked == "onednn" ? Choice::OneDnn : Choice::Fastest;
}

// Sizes of a float32 tensor on the CPU, -1 for those that are open; empty for anything else.
std::vector<int64_t> sizes_of(const Arg& arg, size_t rank) {
  if (arg.kind != Arg::Kind::Value || !arg.value->type.is_tensor()) return {};
  const Type& type = arg.value->type;
  if (type.dtype != at::kFloat || !type.device.is_cpu() || type.sizes.size() != rank) return {};
  std::vector<int64_t> sizes;
  for (const Dim& size : type.sizes) sizes.push_back(size.is_number() ? size.number() : -1);
  return sizes;
}

// Where a size is open, the product of the others by a hundred: what a call will find is not known.
int64_t guessed_work(std::initializer_list<int64_t> sizes) {
  int64_t work = 1;
  for (int64_t size : sizes) work *= size < 0 ? 100 : size;
  return work;
}

bool is_one(const Arg& arg) {
  return arg.kind == Arg::Kind::Const && arg.constant.isScalar() && arg.constant.toScalar().equal(1);
}

bool is_pair(const Arg& arg) {
  return arg.kind == Arg::Kind::Const && arg.constant.isIntList() && arg.constant.toIntList().size() == 2;
}

void turn_into(Node& node, const char* name, std::vector<Arg> args) {
  node.op.aten.emplace(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""));
  node.args = std::move(args);
}

// What the matrix is the transpose of, where the graph says so.
Value* transposed(const Value* matrix) {
  const Node* def = matrix->def;
  return def && is_aten_op(*def, "t") && def->args[0].value->type.sizes.size() == 2 ? def->args[0].value : nullptr;
}

Value* transpose(Graph& graph, const Node& user, Value* matrix) {
  static const auto t = c10::Dispatcher::singleton().findSchemaOrThrow("aten::t", "");
  Node* node = graph.add_aten(t, {matrix});
  node->source = user.source;
  node->phase = user.phase;
  node->returns.push_back({});
  Type type = matrix->type;
  std::swap(type.sizes[0], type.sizes[1]);
  std::swap(type.strides[0], type.strides[1]);
  return node->add_output(std::move(type));
}

bool choose_product(Graph& graph, Node& node, Choice choice) {
  const bool with_bias = is_aten_op(node, "addmm");
  const size_t first = with_bias ? 1 : 0;
  const std::vector<int64_t> a = sizes_of(node.args[first], 2), b = sizes_of(node.args[first + 1], 2);
  if (a.empty() || b.empty()) return false;
  if (choice != Choice::OneDnn && guessed_work({a[0], a[1], b[1]}) < kSmallestProduct) return false;
  if (with_bias && (sizes_of(node.args[0], 1) != std::vector{b[1]} || !is_one(node.args[3]) || !is_one(node.args[4])))
    return false;
  Value* weight = transposed(node.args[first + 1].value);
  if (!weight) weight = transpose(graph, node, node.args[first + 1].value);
  turn_into(node, "firesteel::product",
            {node.args[first], weight, with_bias ? node.args[0] : Arg(),
             Arg::of_const(choice == Choice::OneDnn ? "onednn" : "fastest")});
  return true;
}

bool choose_batch_product(Node& node) {
  const std::vector<int64_t> a = sizes_of(node.args[0], 3), b = sizes_of(node.args[1], 3);
  if (a.empty() || b.empty() || guessed_work({a[1], a[2], b[2]}) < kSmallestProduct) return false;
  turn_into(node, "firesteel::batch_product", {node.args[0], node.args[1]});
  return true;
}

// `at`: where input and weight stand. Only results that are contiguous: other layouts are ATen's business.
bool is_plain_convolution(const Node& node, size_t at, size_t stride) {
  const std::vector<int64_t> input = sizes_of(node.args[at], 4), weight = sizes_of(node.args[at + 1], 4);
  const auto is_false = [&](const Arg& arg) {
    return arg.kind == Arg::Kind::Const && arg.constant.isBool() && !arg.constant.toBool();
  };
  const bool plain = !input.empty() && !weight.empty() && is_pair(node.args[stride]) &&
                     is_pair(node.args[stride + 1]) && is_pair(node.args[stride + 2]) &&
                     is_false(node.args[stride + 3]) && node.args[at].value->type.is_contiguous() &&
                     node.args[at + 1].value->type.is_contiguous();
  return plain &&
         guessed_work({input[0], input[2], input[3], weight[0], weight[1], weight[2], weight[3]}) >= kSmallestProduct;
}

// input, weight, bias, stride, padding, dilation, transposed, output padding, groups
bool choose_convolution(Node& node) {
  if (!is_plain_convolution(node, 0, 3) || !node.outputs[0]->type.is_contiguous()) return false;
  const std::vector<Arg>& args = node.args;
  turn_into(node, "firesteel::convolution", {args[0], args[1], args[2], args[3], args[4], args[5], args[8]});
  return true;
}

// grad, input, weight, sizes of the bias, stride, padding, dilation, transposed, output padding, groups, what is wanted
bool choose_gradients(Node& node) {
  if (!is_plain_convolution(node, 1, 4)) return false;
  for (const auto& output : node.outputs) {
    if (output->type.is_tensor() && !output->type.is_contiguous()) return false;
  }
  const std::vector<Arg>& args = node.args;
  turn_into(node, "firesteel::convolution_backward",
            {args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[9], args[10]});
  return true;
}

bool choose(Graph& graph, Node& node, Choice choice) {
  if (is_aten_op(node, "mm") || is_aten_op(node, "addmm")) return choose_product(graph, node, choice);
  if (is_aten_op(node, "bmm")) return choose_batch_product(node);
  if (is_aten_op(node, "convolution")) return choose_convolution(node);
  return is_aten_op(node, "convolution_backward") && choose_gradients(node);
}

}  // namespace

bool may_use_onednn() { return choice() != Choice::Aten; }
void check_matmul_setting() { choice(); }

bool choose_libraries(Graph& graph) {
  const Choice chosen = choice();
  if (chosen == Choice::Aten) return false;
  bool changed = false;
  std::vector<std::unique_ptr<Node>> nodes = std::exchange(graph.nodes, {});  // new ones come before their users
  for (auto& node : nodes) {
    if (node->op.is_aten() && choose(graph, *node, chosen)) changed = true;
    graph.nodes.push_back(std::move(node));
  }
  if (changed) run_pass("dead_code", graph);
  return changed;
}

}  // namespace firesteel
