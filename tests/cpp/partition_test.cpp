// The partitioner: chosen cases, and random joint graphs run whole against forward + backward on real tensors.
#include <chrono>

#include <ATen/Parallel.h>
#include <torch/library.h>

#include "base/error.h"
#include "partition_joints.h"

using namespace firesteel;
using namespace firesteel::testing_joints;

namespace {

// Operators that ATen lacks: one that writes to its argument, one that draws a number.
TORCH_LIBRARY(fs_partition_test, m) {
  m.def("add_into(Tensor(a!) out, Tensor x) -> ()");
  m.def("draw(Tensor x, *, Generator? generator=None) -> float");
}
TORCH_LIBRARY_IMPL(fs_partition_test, CPU, m) {
  m.impl("add_into", [](at::Tensor out, const at::Tensor& x) { out.add_(x); });
  m.impl("draw", [](const at::Tensor&, std::optional<at::Generator>) { return at::rand({}).item<double>(); });
}

}  // namespace

TEST(Partition, SavesInputsAndRecomputesPointwiseChains) {
  JointBuilder b;
  Value *x = b.argument({64, 64}), *w = b.argument({64, 64}), *dy = b.tangent({64, 64});
  Value* h = b.mm(x, w);
  Value* y = b.op("aten::gelu", {h, constant(std::string("none"))});
  Value* z = b.mm(y, w);
  b.phase = Phase::Backward;
  Value* dw = b.mm(b.t(y), dy);
  Value* dh = b.op("aten::gelu_backward", {b.mm(dy, b.t(w)), h, constant(std::string("none"))});
  b.finish({z}, {b.mm(dh, b.t(w)), b.add(dw, b.mm(b.t(x), dh))});
  EXPECT_EQ(check(b, Recompute::None).saved_input, (Indices{0, 1, -1, -1}));  // x, w, h, y
  for (Recompute mode : {Recompute::Cheap, Recompute::MinCut}) {
    Partitioned parts = check(b, mode);
    EXPECT_EQ(parts.saved_input, (Indices{0, 1, -1}));  // y is computed again from h
    EXPECT_EQ(op_names(parts.forward), (Names{"aten.mm", "aten.gelu", "aten.mm"}));
    EXPECT_EQ(op_names(parts.backward).front(), "aten.gelu");
    EXPECT_EQ(parts.backward.nodes.front()->phase, Phase::Backward);
    EXPECT_EQ(parts.backward.inputs[2].value->name, h->name);
  }
}

TEST(Partition, MinCutSavesTheSmallerOfTwoCuts) {
  JointBuilder b;
  Value *x = b.argument({64, 64}), *dy = b.tangent({64, 64});
  Value* big = b.mm(x, x);
  Value* row = b.op("aten::sum", {big, constant(std::vector<int64_t>{1}), constant(true), kNone}, "dim_IntList");
  Value* wide = b.sin(b.op("aten::expand", {row, constant(std::vector<int64_t>{64, 64}), constant(false)}));
  b.phase = Phase::Backward;
  b.finish({big}, {b.mul(dy, wide)});
  Partitioned parts = check(b, Recompute::MinCut);
  ASSERT_EQ(parts.saved_input, (Indices{-1}));
  EXPECT_EQ(parts.backward.inputs[0].value->name, row->name);
}

// The residual stream is long-lived anyway: saving what is added to it instead would compute all of it again.
TEST(Partition, SavesTheResidualStream) {
  JointBuilder b;
  Value *x = b.argument({64, 64}), *w = b.argument({64, 64}), *g = b.tangent({64, 64});
  std::vector<Value*> stream, normed;
  for (int layer = 0; layer < 4; ++layer) {
    stream.push_back(x);
    normed.push_back(b.op("aten::_softmax", {x, constant(1), constant(false)}));
    x = b.add(x, b.mm(normed.back(), w));
  }
  Value* result = x;
  b.phase = Phase::Backward;
  for (int layer = 4; layer-- > 0;) g = b.add(b.mul(b.mm(g, b.t(normed[layer])), stream[layer]), g);
  b.finish({result}, {g});
  std::vector<std::string> expected, saved;
  for (int layer = 0; layer < 4; ++layer) expected.insert(expected.end(), {stream[layer]->name, normed[layer]->name});
  for (const Input& input : check(b, Recompute::MinCut).backward.inputs)
    if (input.role == InputRole::Saved) saved.push_back(input.value->name);
  EXPECT_EQ(saved, expected);
}

TEST(Partition, ComputesAgainJustBeforeTheFirstUse) {
  JointBuilder b;
  Value *x = b.argument({4, 4}), *g = b.tangent({4, 4});
  Value *first = b.sin(x), *second = b.op("aten::tanh", {x});
  Value* y = b.mul(first, second);
  b.phase = Phase::Backward;
  g = b.mul(g, second);
  b.finish({y}, {b.mul(g, first)});
  EXPECT_EQ(op_names(check(b, Recompute::MinCut).backward),
            (Names{"aten.tanh", "aten.mul.Tensor", "aten.sin", "aten.mul.Tensor"}));
}

TEST(Partition, ReplaysViewsOnTheirBase) {
  JointBuilder b;
  Value *x = b.argument({4, 4}), *dy = b.tangent({4, 4});
  Value* h = b.mm(x, x);
  Value* v = b.t(h);
  b.phase = Phase::Backward;
  b.finish({v}, {b.mm(dy, b.t(v)), b.mul(dy, b.t(x))});
  for (Recompute mode : kModes) EXPECT_EQ(check(b, mode).saved_input, (Indices{0, -1}));
}

TEST(Partition, CopiesMutatedInputsThatTheBackwardReads) {
  for (bool layout_only : {false, true}) {
    JointBuilder b;
    Value *x = b.argument({4, 4}), *w = b.argument({4, 4}), *dy = b.tangent({4, 4});
    Value* y = b.mm(b.t(x), w);
    Value* updated = layout_only ? b.t(x) : b.add(x, w);
    b.phase = Phase::Backward;
    b.finish({y}, {b.mm(dy, b.t(w)), b.mm(x, dy)});
    b.joint.graph.mutations.push_back({x, updated, false, layout_only});
    for (Recompute mode : kModes) {
      Partitioned parts = check(b, mode);
      EXPECT_EQ(parts.saved_input, (Indices{-1, 1}));
      EXPECT_EQ(op_names(parts.forward).back(), layout_only ? "aten.alias" : "aten.clone");
      EXPECT_EQ(parts.forward.mutations.size(), 1u);
    }
  }
}

TEST(Partition, SavesWhatIsMadeOfAMutatedInputRatherThanACopy) {
  JointBuilder b;
  Value *x = b.argument({4, 4}), *dy = b.tangent({4, 4});
  Value* y = b.sin(x);
  Value* updated = b.op("aten::neg", {x});
  b.phase = Phase::Backward;
  b.finish({b.op("aten::tanh", {y})}, {b.mul(dy, y)});
  b.joint.graph.mutations.push_back({x, updated});
  for (Recompute mode : kModes) EXPECT_EQ(check(b, mode).backward.inputs[0].value->name, y->name);
}

TEST(Partition, CopiesOfMutatedInputsWithHolesKeepTheirTypesTrue) {
  JointBuilder b;
  Value* x = b.input(InputRole::Argument, at::randn({4, 8}).slice(1, 0, 4).t());
  Value* dy = b.tangent({4, 4});
  Value* diagonal =
      b.op("aten::as_strided", {x, constant(std::vector<int64_t>{4}), constant(std::vector<int64_t>{9}), kNone});
  Value* updated = b.op("aten::neg", {x});
  b.phase = Phase::Backward;
  b.finish({}, {b.mul(dy, diagonal), b.mul(dy, b.t(x)), b.mul(dy, x)});
  b.joint.graph.mutations.push_back({x, updated});
  for (Recompute mode : kModes) check(b, mode);
}

TEST(Partition, DrawsOnceInOrder) {
  JointBuilder b;
  Value *x = b.argument({8, 8}), *dy = b.tangent({8, 8});
  std::vector<Value*> dropped = b.multi("aten::native_dropout", "", {x, constant(0.5), constant(true)});
  Value* unused = b.op("aten::rand_like", {x, kNone, kNone, kNone, kNone, kNone});
  (void)unused;  // it moves the generator, so it stays
  b.phase = Phase::Backward;
  Value* noise = b.op("aten::rand_like", {x, kNone, kNone, kNone, kNone, kNone});
  b.finish({dropped[0]}, {b.mul(b.mul(dy, dropped[1]), noise)});
  for (Recompute mode : kModes) {
    Partitioned parts = check(b, mode);
    EXPECT_EQ(op_names(parts.forward), (Names{"aten.native_dropout", "aten.rand_like"}));
    EXPECT_EQ(op_names(parts.backward).front(), "aten.rand_like");
    EXPECT_EQ(parts.saved_input, (Indices{0, -1}));  // the mask, and x for the shape of the noise
  }
}

TEST(Partition, KeepsWritesWithTheirReaders) {
  JointBuilder b;
  Value *x = b.argument({4, 4}), *w = b.argument({4, 4}), *dy = b.tangent({4, 4});
  Value* c = b.op("aten::clone", {x, kNone});
  Value* before = b.sin(c);
  b.add_into(b.t(c), w);
  Value *after = b.sin(c), *also_after = b.op("aten::tanh", {c});
  Value* y = b.mul(also_after, w);
  b.phase = Phase::Backward;
  Value* scratch = b.op("aten::clone", {w, kNone});
  b.add_into(scratch, dy);
  b.add_into(after, dy);            // a value of the forward's that only the backward reads,
  b.add_into(b.t(also_after), dy);  // and one that the forward needs too
  b.finish({y}, {b.mul(dy, before), b.mul(scratch, after), b.mul(dy, c), also_after});
  for (Recompute mode : kModes) check(b, mode);
}

TEST(Partition, HandsNumbersOver) {
  JointBuilder b;
  Value *x = b.argument({4, 4}), *dy = b.tangent({4, 4});
  Value* drawn = b.op("fs_partition_test::draw", {x, kNone});
  Value* size = b.op("aten::sym_size", {x, constant(0)}, "int");
  Value* y = b.op("aten::mul", {x, drawn}, "Scalar");
  b.phase = Phase::Backward;
  Value* g = b.op("aten::mul", {dy, drawn}, "Scalar");
  b.finish({y}, {b.op("aten::mul", {g, size}, "Scalar")});
  for (Recompute mode : kModes) {
    Partitioned parts = check(b, mode);
    EXPECT_EQ(op_names(parts.backward).front(), "aten._local_scalar_dense");
  }
}

TEST(Partition, PassesNoneWithoutSavingIt) {
  JointBuilder b;
  Value *x = b.argument({4, 4}), *dy = b.tangent({4, 4});
  const std::vector<int64_t> shape = {4};
  std::vector<Value*> norm = b.multi("aten::native_layer_norm", "", {x, constant(shape), kNone, kNone, constant(1e-5)});
  c10::List<bool> mask({true, false, false});
  auto backward_of = [&](Value* gradient, Arg weight) {
    return b.multi("aten::native_layer_norm_backward", "",
                   {gradient, x, constant(shape), norm[1], norm[2], weight, kNone, constant(mask)});
  };
  std::vector<Value*> early = backward_of(x, kNone);
  ASSERT_EQ(early[1]->type.kind, ValueKind::None);
  b.phase = Phase::Backward;
  b.finish({norm[0], early[0]}, {backward_of(dy, early[1])[0], early[2]});
  for (Recompute mode : kModes) {
    Partitioned parts = check(b, mode);
    EXPECT_EQ(parts.backward.outputs[1].kind, Arg::Kind::None);
  }
}

TEST(Partition, EdgeCases) {
  JointBuilder empty;
  JointBuilder none;
  Value* only = none.argument({4});
  none.finish({none.sin(only)}, {Arg(), Arg()});
  JointBuilder direct;  // gradients that are a tangent, an input, a forward output, a constant factory, a repeat
  Value *x = direct.argument({4}), *dy = direct.tangent({4});
  Value* y = direct.sin(x);
  direct.phase = Phase::Backward;
  Value* ones = direct.op("aten::ones_like", {x, kNone, kNone, kNone, kNone, kNone});
  direct.finish({y, y, x}, {dy, x, y, ones, dy, Arg()});
  direct.joint.graph.output_aliases.resize(9);
  direct.joint.graph.output_aliases[2] = {OutputAlias::Kind::IsInput, 0};
  JointBuilder nothing_saved;
  Value *a = nothing_saved.argument({4}), *da = nothing_saved.tangent({4});
  Value* sum = nothing_saved.add(a, a);
  nothing_saved.phase = Phase::Backward;
  nothing_saved.finish({sum}, {nothing_saved.add(da, da)});
  for (Recompute mode : kModes) {
    EXPECT_TRUE(check(empty, mode).forward.nodes.empty());
    EXPECT_TRUE(check(none, mode).saved_input.empty());
    check(direct, mode);
    EXPECT_TRUE(check(nothing_saved, mode).saved_input.empty());
  }
}

TEST(Partition, RefusesForwardResultsThatNeedATangent) {
  JointBuilder b;
  Value *x = b.argument({4}), *dy = b.tangent({4});
  b.finish({b.mul(x, dy)}, {});
  EXPECT_THROW(partition(b.joint), InternalError);
}

TEST(Partition, RandomGraphsRunAsTheJointDoes) {
  at::set_num_threads(1);
  size_t saved[3] = {0, 0, 0};
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    at::manual_seed(seed);
    const RandomJoint built(seed);
    for (Recompute mode : kModes) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", mode " + std::to_string(static_cast<int>(mode)));
      for (int64_t input : check(built, mode).saved_input) saved[static_cast<int>(mode)] += input < 0;
    }
    if (HasFailure()) {
      std::cout << built.joint.graph.str();
      break;
    }
  }
  EXPECT_LT(saved[1], saved[0]);
  EXPECT_LT(saved[2], saved[1]);
}

// Never a timed test: the figure is printed for whoever measures.
TEST(Partition, FiveThousandNodes) {
  JointBuilder b;
  std::vector<Value*> before;
  Value *x = b.argument({8, 8}), *w = b.argument({8, 8}), *g = b.tangent({8, 8});
  for (int layer = 0; layer < 500; ++layer) {
    Value* h = b.mm(x, w);
    before.insert(before.end(), {x, h});
    x = b.sin(b.add(b.op("aten::sigmoid", {h}), x));
  }
  Value* result = x;
  b.phase = Phase::Backward;
  for (int layer = 500; layer-- > 0;) {
    Value *h = before[2 * layer + 1], *in = before[2 * layer];
    Value* s = b.op("aten::sigmoid", {h});
    g = b.mul(g, b.op("aten::cos", {b.add(s, in)}));
    g = b.add(b.mm(b.op("aten::sigmoid_backward", {g, s}), b.t(w)), g);
  }
  b.finish({result}, {g});
  ASSERT_GE(b.joint.graph.nodes.size(), 5000u);
  for (Recompute mode : kModes) {
    double best = 1e9;
    for (int time = 0; time < 5; ++time) {
      const auto start = std::chrono::steady_clock::now();
      partition(b.joint, {mode});
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::cout << "partition of " << b.joint.graph.nodes.size() << " nodes, mode " << static_cast<int>(mode) << ": "
              << best << " ms\n";
    check(b, mode);
  }
}
