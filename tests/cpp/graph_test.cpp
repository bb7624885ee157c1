// Dims, types, trees, operator facts, the graph's own operations and the verifier.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "graph/graph.h"

namespace firesteel {
namespace {

c10::OperatorHandle op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

Type f32(std::vector<Dim> sizes) {
  auto strides = contiguous_strides(sizes);
  return Type::tensor(c10::kFloat, c10::kCPU, std::move(sizes), std::move(strides));
}

Dim s(const char* name) { return Dim::symbol(name); }
Dim floor_div(Dim a, Dim b) { return Dim::make(DimOp::FloorDiv, a, b); }
Dim mod(Dim a, Dim b) { return Dim::make(DimOp::Mod, a, b); }

TEST(GraphDim, OneOrderForEqualExpressions) {
  Dim a = s("a"), b = s("b");
  EXPECT_EQ(a + b, b + a);
  EXPECT_EQ(a * b * 2, Dim(2) * b * a);
  EXPECT_EQ((a + 1) * 2, a * 2 + 2);
  EXPECT_EQ(a + a, Dim(2) * a);
  EXPECT_EQ(a + Dim(-1) * a, Dim(0));
  EXPECT_EQ(a * 0, Dim(0));
  EXPECT_EQ((a + b + 3 + a).str(), "2*a + b + 3");
  EXPECT_EQ((a + Dim(-1) * b + -3).str(), "a - b - 3");
  EXPECT_EQ((a * b * -2 + 1).str(), "-2*a*b + 1");
  EXPECT_EQ(floor_div(a + 1, 2).str(), "(a + 1) // 2");
  EXPECT_EQ(mod(a, floor_div(b, 2)).str(), "a % (b // 2)");
  EXPECT_EQ(Dim::make(DimOp::Max, 1, a).str(), "max(a, 1)");
  EXPECT_NE(a, b);
}

TEST(GraphDim, EvaluatesLikePython) {
  auto lookup = [](std::string_view name) { return name == "a" ? std::optional<int64_t>(-7) : std::nullopt; };
  EXPECT_EQ(floor_div(s("a"), 2).evaluate(lookup), -4);
  EXPECT_EQ(mod(s("a"), 2).evaluate(lookup), 1);
  EXPECT_EQ(floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(s("b").evaluate(lookup), std::nullopt);
  EXPECT_EQ(floor_div(s("a"), 0).evaluate(lookup), std::nullopt);
  EXPECT_EQ((Dim(INT64_MAX) + 1).evaluate(lookup), std::nullopt);
  EXPECT_EQ(floor_div(INT64_MIN, -1).evaluate(lookup), std::nullopt);
}

TEST(GraphType, TextAndContiguity) {
  EXPECT_EQ(f32({8, 16}).str(), "f32[8, 16]");
  Type type = Type::tensor(c10::kBFloat16, c10::Device("cuda:0"), {2, 3}, {1, 2});
  type.requires_grad = true;
  EXPECT_EQ(type.str(), "bf16[2, 3; 1, 2] cuda:0 grad");
  EXPECT_FALSE(type.is_contiguous());
  EXPECT_TRUE(Type::tensor(c10::kFloat, c10::kCPU, {1, 3}, {77, 1}).is_contiguous());
  EXPECT_TRUE(Type::tensor(c10::kFloat, c10::kCPU, {0, 3}, {9, 9}).is_contiguous());
  EXPECT_EQ(f32({0, 3}).strides, (std::vector<Dim>{3, 1}));
  EXPECT_EQ(f32({2, s("n")}).nbytes(), std::nullopt);
  EXPECT_EQ(type.nbytes(), 12);
  for (int i = 0; i < static_cast<int>(c10::ScalarType::Undefined); i++) {
    auto dtype = static_cast<c10::ScalarType>(i);
    EXPECT_EQ(dtype_from_text(dtype_text(dtype)), dtype);
  }
}

TEST(GraphTree, Text) {
  Tree dict;
  dict.kind = TreeKind::Dict;
  dict.keys = {"a"};
  dict.children = {Tree::leaf()};
  Tree point;
  point.kind = TreeKind::Custom;
  point.text = "Point";
  point.children = {Tree::leaf(), Tree::leaf()};
  Tree list = Tree::sequence(TreeKind::List, {Tree::leaf(), Tree::constant("3")});
  Tree tree = Tree::sequence(TreeKind::Tuple, {Tree::leaf(), list, dict, point});
  EXPECT_EQ(tree.str(), "(_, [_, 3], {\"a\": _}, Point(_, _))");
  EXPECT_EQ(tree.leaf_count(), 5u);
  EXPECT_EQ(Tree::tuple_of_leaves(1).str(), "(_,)");
  EXPECT_NE(tree, list);
}

TEST(GraphOp, Facts) {
  EXPECT_TRUE(op_facts(op("aten::mm")).is_pure);
  EXPECT_TRUE(op_facts(op("aten::view")).is_view);
  EXPECT_TRUE(op_facts(op("aten::view")).is_pure);
  EXPECT_TRUE(op_facts(op("aten::split", "Tensor")).is_view);
  EXPECT_TRUE(op_facts(op("aten::_unsafe_view")).is_view);
  EXPECT_FALSE(op_facts(op("aten::mm")).is_view);
  EXPECT_TRUE(op_facts(op("aten::add_", "Tensor")).is_mutable);
  EXPECT_FALSE(op_facts(op("aten::add_", "Tensor")).is_pure);
  EXPECT_TRUE(op_facts(op("aten::add", "out")).is_mutable);
  EXPECT_TRUE(op_facts(op("aten::native_dropout")).is_random);
  EXPECT_TRUE(op_facts(op("aten::bernoulli", "p")).is_random);
  EXPECT_FALSE(op_facts(op("aten::rand")).is_pure);
  EXPECT_FALSE(op_facts(op("aten::_assert_async")).is_pure);
  EXPECT_TRUE(op_facts(op("aten::native_batch_norm")).is_mutable);
  EXPECT_EQ(Op{op("aten::add", "Tensor")}.str(), "aten.add.Tensor");
  EXPECT_EQ(Op{op("aten::mm")}.str(), "aten.mm");
}

TEST(GraphOp, FactsFromManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; i++) {
        EXPECT_TRUE(op_facts(op("aten::sin")).is_pure);
        EXPECT_TRUE(op_facts(op("aten::sin_")).is_mutable);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr const char* kText = R"(graph f(%x: f32[4]) {
  %a: f32[4] = aten.sin(%x)
  %b: f32[4] = aten.cos(%a)
  mutate %x <- %a
  return (%b, %a)
}
)";

TEST(Graph, CloneIsSeparate) {
  Graph graph = parse_graph(kText);
  Graph copy = graph.clone();
  verify(copy);
  EXPECT_EQ(copy.str(), kText);
  copy.nodes[0]->outputs[0]->name = "changed";
  EXPECT_EQ(graph.str(), kText);
}

TEST(Graph, ReplaceAndErase) {
  Graph graph = parse_graph(kText);
  graph.replace_uses(graph.nodes[0]->outputs[0].get(), graph.inputs[0].value.get());
  graph.erase_nodes([](const Node& node) { return node.op.str() == "aten.sin"; });
  verify(graph);
  EXPECT_EQ(graph.str(),
            "graph f(%x: f32[4]) {\n  %b: f32[4] = aten.cos(%x)\n  mutate %x <- %x\n  return (%b, %x)\n}\n");
}

TEST(Graph, SourceText) {
  SourceLocation source;
  EXPECT_EQ(source.str(), "");
  source.file = std::make_shared<SourceFile>(SourceFile{"/home/a/model.py"});
  source.line = 12;
  EXPECT_EQ(source.str(), "model.py:12");
  source.function = "forward";
  EXPECT_EQ(source.str(), "model.py:12 forward");
}

// Breaks a good graph in one way and returns what the verifier says.
std::string verdict(const std::function<void(Graph&)>& damage) {
  Graph graph = parse_graph(kText);
  damage(graph);
  try {
    verify(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "well formed";
}

#define EXPECT_VERDICT(part, ...)                                                   \
  do {                                                                              \
    std::string text = verdict([]([[maybe_unused]] Graph& graph) { __VA_ARGS__; }); \
    EXPECT_NE(text.find(part), std::string::npos) << text;                          \
  } while (0)

TEST(GraphVerify, EveryRule) {
  EXPECT_VERDICT("well formed", (void)graph);
  EXPECT_VERDICT("not defined before its use", std::swap(graph.nodes[0], graph.nodes[1]));
  EXPECT_VERDICT("not defined before its use", graph.nodes.erase(graph.nodes.begin() + 1));
  EXPECT_VERDICT("an input of the graph has no value", graph.inputs[0].value.reset());
  EXPECT_VERDICT("says that a node defines it", graph.inputs[0].value->def = graph.nodes[0].get());
  EXPECT_VERDICT("does not name its node", graph.nodes[0]->outputs[0]->index = 3);
  EXPECT_VERDICT("0 arguments, its schema 1", graph.nodes[0]->args.clear());
  EXPECT_VERDICT("returns count 0 values", graph.nodes[0]->returns.clear());
  EXPECT_VERDICT("is a list in one of", graph.nodes[0]->returns[0].list_count = 1);
  EXPECT_VERDICT("a constant is a tensor", graph.outputs[0] = Arg::of_const(at::Tensor()));
  EXPECT_VERDICT("a constant that is no number", graph.nodes[0]->args[0] = Arg::of_const(std::string("a")));
  EXPECT_VERDICT("output_tree has 1 leaves for 2 outputs", graph.output_tree = Tree::tuple_of_leaves(1));
  EXPECT_VERDICT("input_tree has 2 leaves", graph.input_tree = Tree::tuple_of_leaves(2));
  EXPECT_VERDICT("output_aliases has 1 entries", graph.output_aliases.resize(1));
  EXPECT_VERDICT("which does not exist", graph.output_aliases = {{OutputAlias::Kind::IsInput, 5}, {}});
  EXPECT_VERDICT("a view of itself", graph.output_aliases = {{OutputAlias::Kind::ViewOfOutput, 0}, {}});
  EXPECT_VERDICT("something that is no input", graph.mutations[0].input = graph.nodes[0]->outputs[0].get());
  EXPECT_VERDICT("changed by two mutations", graph.mutations.push_back(graph.mutations[0]));
  EXPECT_VERDICT("a node that writes", graph.nodes[0]->op.aten = op("aten::sin_"));
  EXPECT_VERDICT("1 sizes but 0 strides", graph.nodes[0]->outputs[0]->type.strides.clear());
  EXPECT_VERDICT("neither an operator nor a name", graph.nodes[0]->op.aten.reset());
}

}  // namespace
}  // namespace firesteel
