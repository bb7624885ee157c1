// Graph text: what is printed reads back, and what cannot be read is refused with its place.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "graph/graph.h"

namespace firesteel {
namespace {

constexpr const char* kEverything = R"(graph encoder(
    %x: f32[8, 16],
    %w.weight: f32[16, 16; 1, 16] grad captured,
    %c: f32[2, 2] captured = [1.0, -0.0, nan, inf],
    %b: bool[2] captured = [True, False],
    %z: c64[] captured = [complex(1.5, -inf)],
    %n: int,
    %s: bf16[s0, 2*s0 + 1] cuda:1,
    %g: f32[8, 16] tangent,
    %kept: f16[0, 3] saved) {
  takes ([%x], {"n": %n}, Point(%s, 3, 'a', `a b`))
  %mm: f32[8, 16] = aten.mm(%x, %w.weight)                        # model.py:12 forward
  [%p: f32[4, 16], %q: f32[4, 16]] = aten.split.Tensor(%mm, 4)    # model.py:13 forward
  %v: f32[8], %i: i64[8] = aten.max.dim(%mm, 1, keepdim=True)
  %e: f64[3] = aten.full([3], inf, dtype=f64, layout=strided, device=cpu, pin_memory=False)
  %h: f32[8, 16] = aten.clone(%mm, memory_format=preserve_format)
  %j: f32[8, 16] = aten.index.Tensor(%h, [None, %i])
  %k: f32[8, 16] = aten.mul.Tensor(%j, -0.0)
  %l: f32[8, 16] = torch.nn.functional.gelu(%k, [1, (2, "a\"b\n")], {"k": %n}, approximate="tanh", "odd name"=None)
  "<lambda>"(%l, device("cuda:0"), opaque("Stream"))
  %r: f32[8, 16] = aten.bernoulli.p(%l, 1e-05, generator=generator)
  backward:
  %m: f32[8, 16] = aten.add.Tensor(%g, %r, alpha=complex(0.1, nan))
  alias 1 view of %x
  alias 2 is %x
  alias 3 view of output 0
  return (%m, {"k": %p}, [%x, %q, leaf None, leaf [1, %n]], (%j,), None, -1, Pair("a": %k, "b": 2.5))
}
)";

std::string normal(const std::string& text) { return parse_graph(text).str(); }

std::string error_of(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const GraphFormatError& error) {
    return error.what();
  }
  return "no error";
}

c10::OperatorHandle op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

Type f32(std::vector<Dim> sizes) {
  auto strides = contiguous_strides(sizes);
  return Type::tensor(c10::kFloat, c10::kCPU, std::move(sizes), std::move(strides));
}

TEST(GraphText, EverythingReadsBack) {
  std::string once = normal(kEverything);
  EXPECT_EQ(normal(once), once);
  for (const char* part :
       {"inf, dtype=f64, layout=strided, device=cpu, pin_memory=False", "= [1.0, -0.0, nan, inf]",
        "bf16[s0, 2*s0 + 1] cuda:1", "%w.weight: f32[16, 16; 1, 16] grad captured", "generator=generator",
        "leaf [1, %n]", "Pair(\"a\": %k, \"b\": 2.5)", "# model.py:13 forward", "backward:", "alpha=complex(0.1, nan)",
        "\"<lambda>\"(%l, device(\"cuda:0\"), opaque(\"Stream\"))"}) {
    EXPECT_NE(once.find(part), std::string::npos) << part << " is missing in\n" << once;
  }
  EXPECT_EQ(parse_graph(once).clone().str(), once);
}

TEST(GraphText, NamesAreInventedFromOperators) {
  Graph graph;
  Value* x = graph.add_input(f32({2}), InputRole::Argument);
  for (int i = 0; i < 3; i++) {
    Node* node = graph.add_aten(op("aten::sin"), {x});
    node->returns.push_back({});
    x = node->add_output(f32({2}));
  }
  graph.outputs = {x};
  graph.nodes[0]->outputs[0]->name = "sin_1";
  EXPECT_EQ(graph.str(),
            "graph graph(%arg: f32[2]) {\n  %sin_1: f32[2] = aten.sin(%arg)\n  %sin: f32[2] = aten.sin(%sin_1)\n"
            "  %sin_2: f32[2] = aten.sin(%sin)\n  return %sin_2\n}\n");
  EXPECT_EQ(normal(graph.str()), graph.str());
}

TEST(GraphText, FloatsKeepTheirBits) {
  std::mt19937_64 random(7);
  std::vector<double> numbers = {0.0,
                                 -0.0,
                                 1.0,
                                 1e300,
                                 -1e-300,
                                 5e-324,
                                 std::numeric_limits<double>::max(),
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 0.1};
  for (int i = 0; i < 1000; i++) {
    double number = std::bit_cast<double>(random());
    if (!std::isnan(number)) numbers.push_back(number);
  }
  for (double number : numbers) {
    Graph graph;
    Value* x = graph.add_input(f32({2}), InputRole::Argument);
    Node* node = graph.add_aten(op("aten::mul", "Tensor"), {x, Arg::of_const(number)});
    node->returns.push_back({});
    node->add_output(f32({2}));
    Graph back = parse_graph(graph.str());
    EXPECT_EQ(std::bit_cast<uint64_t>(back.nodes[0]->args[1].constant.toDouble()), std::bit_cast<uint64_t>(number));
  }
}

TEST(GraphText, DefaultsAreFilledIn) {
  Graph graph = parse_graph("graph f(%x: f32[2]) {\n  %y: f32[2] = aten.add.Tensor(%x, 1)\n  return %y\n}");
  ASSERT_EQ(graph.nodes[0]->args.size(), 3u);
  EXPECT_EQ(graph.nodes[0]->args[2].constant.toInt(), 1);
  EXPECT_TRUE(graph.nodes[0]->op.is_aten());
}

TEST(GraphText, ConstantReturnsAndEmptyOnes) {
  for (const char* body : {"return", "return ()", "return constant None", "return constant `<a>`",
                           "return None, 1, \"a\"", "return leaf [1, 2]", "return leaf complex(1.0, 2.0), %x",
                           "return [[], {}, Empty()]", "return constant -1", "alias none\n  return %x"}) {
    std::string text = fmt::format("graph f(%x: f32[]) {{\n  {}\n}}\n", body);
    EXPECT_EQ(normal(text), text);
  }
}

TEST(GraphText, SmallCapturedTensorsKeepTheirData) {
  Graph graph = parse_graph(
      "graph \"odd name\"(%a: f32[2, 2; 1, 2] captured = [0.1, 2, 3, 4], %i: u8[] captured = [255]) {\n  return\n}");
  at::Tensor a = graph.inputs[0].captured;
  EXPECT_EQ(a.strides().vec(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(a[0][1].item<float>(), 2);
  EXPECT_EQ(a[0][0].item<float>(), 0.1f);
  EXPECT_NE(graph.str().find("= [0.1, 2.0, 3.0, 4.0], %i: u8[] captured = [255]"), std::string::npos) << graph.str();
}

TEST(GraphText, ErrorsShowTheirPlace) {
  std::string error = error_of("graph f(%x: f32[2]) {\n  %y: f32[2] = aten.sin(%x]\n  return %y\n}");
  EXPECT_EQ(error,
            "line 2, column 27: expected `,` or `)`, found `]`\n    %y: f32[2] = aten.sin(%x]\n                        "
            "    ^");
  auto in_body = [](const std::string& line) {
    return error_of("graph f(%x: f32[2]) {\n  " + line + "\n  return %x\n}");
  };
  EXPECT_NE(in_body("%y: f32[2] = aten.add(%x, 1)").find("`aten.add.Tensor`"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2] = aten.nonsense(%x)").find("no operator `aten.nonsense`"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2] = aten.sin(%z)").find("%z is not defined"), std::string::npos);
  EXPECT_NE(in_body("%x: f32[2] = aten.sin(%x)").find("%x is defined twice"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2] = aten.mul.Tensor(%x)").find("needs its argument `other`"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2] = aten.sin(%x, 1)").find("takes 1 arguments"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2] = aten.sum(%x, dtipe=f32)").find("no argument `dtipe`"), std::string::npos);
  EXPECT_NE(in_body("%y: f33[2] = aten.sin(%x)").find("expected a type"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2; 1, 1] = aten.sin(%x)").find("1 sizes but 2 strides"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[99999999999999999999] = aten.sin(%x)").find("does not fit"), std::string::npos);
  EXPECT_NE(in_body("%y: f32[2], %z: f32[2] = aten.sin(%x)").find("2 returns, its schema 1"), std::string::npos);
  EXPECT_NE(in_body("mutate %x <- ").find("expected a value"), std::string::npos);
  EXPECT_NE(in_body("alias 7 is %x").find("there is no output 7"), std::string::npos);
  EXPECT_NE(error_of("graph f() {\n  return \"abc\n}").find("not closed"), std::string::npos);
  EXPECT_NE(error_of("graph f() {\n  return " + std::string(10000, '(')).find("nested more than"), std::string::npos);
  EXPECT_NE(error_of("graph f(%a: f32[3] captured = [1]) { return }").find("takes 3 elements"), std::string::npos);
  EXPECT_NE(error_of("graph f(%a: u8[1] captured = [256]) { return }").find("does not fit u8"), std::string::npos);
  EXPECT_NE(error_of("").find("found the end of the text"), std::string::npos);
}

TEST(GraphText, GarbageIsRefusedNotCrashedOn) {
  std::string text = kEverything;
  auto read = [](const std::string& mutated) {
    try {
      std::string once = parse_graph(mutated).str();
      EXPECT_EQ(normal(once), once) << "from\n" << mutated;
    } catch (const GraphFormatError&) {
    }
  };
  for (size_t length = 0; length < text.size(); length += 3) read(text.substr(0, length));
  std::mt19937 random(11);
  const std::string marks = "()[]{},:;=*+-%/<\"'`#\n 0123456789abcxyz_.\\\xff";
  for (int round = 0; round < 4000; round++) {
    std::string mutated = text;
    for (size_t edits = 1 + random() % 3; edits > 0; edits--) {
      size_t place = random() % mutated.size();
      char letter = random() % 4 ? marks[random() % marks.size()] : static_cast<char>(random() % 256);
      switch (random() % 4) {
        case 0:
          mutated[place] = letter;
          break;
        case 1:
          mutated.insert(place, 1, letter);
          break;
        case 2:
          mutated.erase(place, 1 + random() % 5);
          break;
        default:
          mutated.insert(place, mutated.substr(random() % mutated.size(), random() % 20));
          break;
      }
    }
    read(mutated);
  }
}

}  // namespace
}  // namespace firesteel
