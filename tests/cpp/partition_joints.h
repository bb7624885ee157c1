// What the partitioner's tests build on: an interpreter over the dispatcher, recorded and random joint graphs, and the
// check that the two halves of a joint graph compute what the whole does.
#pragma once

#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "partition/partition.h"

namespace firesteel::testing_joints {

using Recompute = PartitionOptions::Recompute;
using Names = std::vector<std::string>;
using Indices = std::vector<int64_t>;

inline constexpr Recompute kModes[] = {Recompute::None, Recompute::Cheap, Recompute::MinCut};
inline const Arg kNone;

template <class T>
Arg constant(T value) {
  return Arg::of_const(c10::IValue(std::move(value)));
}

// Runs graphs on real tensors through the dispatcher; also types the graphs that the tests record.
using Environment = std::unordered_map<const Value*, c10::IValue>;

inline c10::IValue evaluate(const Arg& arg, const Environment& values) {
  switch (arg.kind) {
    case Arg::Kind::None:
      return {};
    case Arg::Kind::Value:
      return values.at(arg.value);
    case Arg::Kind::Const:
      return arg.constant;
    default:
      break;
  }
  c10::List<at::Tensor> tensors;  // the only lists of values in these tests
  for (const Arg& item : arg.items) tensors.push_back(evaluate(item, values).toTensor());
  return tensors;
}

inline std::vector<c10::IValue> call(const Node& node, const Environment& values) {
  torch::jit::Stack stack;
  for (const Arg& arg : node.args) stack.push_back(evaluate(arg, values));
  node.op.aten->callBoxed(stack);
  std::vector<c10::IValue> results;
  for (const c10::IValue& result : stack) {
    if (!result.isTensorList())
      results.push_back(result);
    else
      for (const at::Tensor& tensor : result.toTensorVector()) results.emplace_back(tensor);
  }
  return results;
}

inline bool is_none(const c10::IValue& value) {
  return value.isNone() || (value.isTensor() && !value.toTensor().defined());
}

// Outputs of a graph. Mutations are applied to the inputs after all nodes, as the runtime does it; outputs from
// `copy_from` on are copied before that.
inline std::vector<c10::IValue> run(const Graph& graph, const std::vector<c10::IValue>& inputs,
                                    size_t copy_from = SIZE_MAX) {
  Environment values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs.at(i).value.get()] = inputs[i];
  for (const auto& node : graph.nodes) {
    std::vector<c10::IValue> results = call(*node, values);
    for (size_t i = 0; i < node->outputs.size(); ++i) values[node->outputs[i].get()] = results.at(i);
  }
  std::vector<c10::IValue> outputs;
  for (const Arg& output : graph.outputs) {
    outputs.push_back(evaluate(output, values));
    if (outputs.size() > copy_from && !is_none(outputs.back())) outputs.back() = outputs.back().toTensor().clone();
  }
  for (const Mutation& mutation : graph.mutations) {
    at::Tensor input = values.at(mutation.input).toTensor(), updated = values.at(mutation.updated).toTensor();
    if (mutation.metadata_only)
      input.unsafeGetTensorImpl()->set_sizes_and_strides(updated.sizes(), updated.strides());
    else
      input.copy_(updated.clone());
  }
  return outputs;
}

// Unlike clone, keeps the holes between elements.
inline at::Tensor copy(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
}

inline Type type_of(const c10::IValue& value) {
  if (value.isInt()) return Type::scalar(ValueKind::Int);
  if (value.isDouble()) return Type::scalar(ValueKind::Float);
  if (value.isBool()) return Type::scalar(ValueKind::Bool);
  if (!value.isTensor() || !value.toTensor().defined()) return Type::none();
  const at::Tensor& tensor = value.toTensor();
  std::vector<Dim> sizes(tensor.sizes().begin(), tensor.sizes().end());
  std::vector<Dim> strides(tensor.strides().begin(), tensor.strides().end());
  return Type::tensor(tensor.scalar_type(), tensor.device(), std::move(sizes), std::move(strides));
}

// Records a joint graph while running it, so every value has its true type.
class JointBuilder {
 public:
  Joint joint;
  Phase phase = Phase::Forward;
  std::vector<at::Tensor> inputs;

  JointBuilder() { joint.graph.name = "joint"; }

  Value* input(InputRole role, at::Tensor tensor) {
    Value* value = joint.graph.add_input(type_of(tensor), role, "in" + std::to_string(inputs.size()));
    values_[value] = copy(tensor);
    inputs.push_back(std::move(tensor));
    return value;
  }
  Value* argument(at::IntArrayRef sizes) { return input(InputRole::Argument, at::randn(sizes)); }
  Value* tangent(at::IntArrayRef sizes) { return input(InputRole::Tangent, at::randn(sizes)); }

  std::vector<Value*> multi(const char* name, const char* overload, std::vector<Arg> args) {
    Node* node = joint.graph.add_aten(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), std::move(args));
    node->phase = phase;
    const auto& returns = node->op.aten->schema().returns();
    std::vector<c10::IValue> results = call(*node, values_);
    for (const auto& each : returns) {
      const bool is_list = each.type()->kind() == c10::TypeKind::ListType;
      node->returns.push_back({is_list ? static_cast<int32_t>(results.size()) : -1});
    }
    std::vector<Value*> made;
    for (const c10::IValue& result : results) {
      made.push_back(node->add_output(type_of(result)));
      made.back()->name = "v" + std::to_string(count_++);
      values_[made.back()] = result;
    }
    return made;
  }
  Value* op(const char* name, std::vector<Arg> args, const char* overload = "") {
    return multi(name, overload, std::move(args)).at(0);
  }
  Value* add(Value* a, Value* b) { return op("aten::add", {a, b, constant(1)}, "Tensor"); }
  Value* mul(Value* a, Value* b) { return op("aten::mul", {a, b}, "Tensor"); }
  Value* mm(Value* a, Value* b) { return op("aten::mm", {a, b}); }
  Value* sin(Value* a) { return op("aten::sin", {a}); }
  Value* t(Value* a) { return op("aten::t", {a}); }
  void add_into(Value* out, Value* x) { multi("fs_partition_test::add_into", "", {out, x}); }
  void finish(std::vector<Arg> forward, std::vector<Arg> gradients) {
    joint.forward_outputs = forward.size();
    joint.graph.outputs = std::move(forward);
    for (Arg& gradient : gradients) joint.graph.outputs.push_back(std::move(gradient));
  }
  const at::Tensor& tensor(const Value* value) const { return values_.at(value).toTensor(); }

 private:
  Environment values_;
  int count_ = 0;
};

// A value equal to another, bit for bit (NaN equals NaN).
inline bool same(const c10::IValue& a, const c10::IValue& b) {
  if (is_none(a) || is_none(b)) return is_none(a) == is_none(b);
  const at::Tensor x = a.toTensor(), y = b.toTensor();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() && at::allclose(x, y, 0, 0, /*equal_nan=*/true);
}

inline std::vector<c10::IValue> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::IValue> copied;
  for (const at::Tensor& tensor : tensors) copied.emplace_back(copy(tensor));
  return copied;
}

inline int count_impure(const Graph& graph) {
  int count = 0;
  for (const auto& node : graph.nodes) count += !op_facts(*node->op.aten).is_pure;
  return count;
}

inline bool writes_in_place(const Graph& graph) {
  for (const auto& node : graph.nodes)
    if (op_facts(*node->op.aten).is_mutable) return true;
  return false;
}

// Partitions in one mode and checks it by running: results, gradients (of two backward runs) and inputs must be those
// of the joint graph, though saved inputs are handed over as they are after the mutations.
inline Partitioned check(const JointBuilder& built, Recompute recompute) {
  const Joint& joint = built.joint;
  Partitioned parts = partition(joint, {recompute});
  verify(parts.backward);
  if (!writes_in_place(joint.graph) || joint.graph.mutations.empty())
    verify(parts.forward);  // it allows only one of them
  EXPECT_EQ(parts.forward_outputs, joint.forward_outputs);
  EXPECT_EQ(parts.forward.outputs.size(), joint.forward_outputs + parts.saved_input.size());
  EXPECT_EQ(parts.backward.outputs.size(), joint.graph.outputs.size() - joint.forward_outputs);
  EXPECT_EQ(count_impure(parts.forward) + count_impure(parts.backward), count_impure(joint.graph));

  std::vector<c10::IValue> inputs = copies(built.inputs), split_inputs = copies(built.inputs), forward_inputs, tangents;
  at::manual_seed(7);
  const std::vector<c10::IValue> expected = run(joint.graph, inputs, joint.forward_outputs);
  for (size_t i = 0; i < split_inputs.size(); ++i)
    (joint.graph.inputs[i].role == InputRole::Tangent ? tangents : forward_inputs).push_back(split_inputs[i]);

  at::manual_seed(7);
  const std::vector<c10::IValue> results = run(parts.forward, forward_inputs);
  for (size_t i = 0; i < joint.forward_outputs; ++i)
    EXPECT_TRUE(same(expected[i], results[i])) << "forward output " << i;
  std::vector<c10::IValue> saved;
  for (size_t i = 0; i < parts.saved_input.size(); ++i) {
    const int64_t input = parts.saved_input[i];
    saved.push_back(input < 0 ? results[joint.forward_outputs + i] : forward_inputs.at(input));
    EXPECT_EQ(parts.backward.inputs[i].role, InputRole::Saved);
    if (input < 0) {
      EXPECT_EQ(parts.backward.inputs[i].value->type.str(), type_of(saved.back()).str());
    }
  }
  saved.insert(saved.end(), tangents.begin(), tangents.end());
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const at::Tensor generator_state = generator.get_state();
  for (int time = 0; time < 2; ++time) {
    generator.set_state(generator_state);
    const std::vector<c10::IValue> gradients = run(parts.backward, saved);
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(same(expected[joint.forward_outputs + i], gradients[i])) << "gradient " << i << ", run " << time;
  }
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(same(inputs[i], split_inputs[i])) << "input " << i;
  return parts;
}

inline std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes) names.push_back(node->op.str());
  return names;
}

// Grows a joint graph at random from operators over [4, 4], [2, 4], [16] and [4] tensors.
class RandomJoint : public JointBuilder {
 public:
  explicit RandomJoint(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) pool_.push_back(argument({4, 4}));
    pool_.push_back(argument({4}));
    pool_.push_back(input(InputRole::Captured, at::randn({4, 4})));
    std::vector<Value*> tangents = {tangent({4, 4}), tangent({4})};
    const size_t arguments = pool_.size();
    grow(6 + pick(20));
    const std::vector<Value*> early = pool_;
    pool_.insert(pool_.end(), tangents.begin(), tangents.end());
    phase = Phase::Backward;
    grow(4 + pick(14));

    std::vector<Arg> results, gradients;
    for (size_t i = 0, n = pick(4); i < n; ++i) results.emplace_back(early[pick(early.size())]);
    for (size_t i = 0, n = pick(5); i < n; ++i)
      gradients.push_back(pick(8) ? Arg(pool_[pool_.size() - 1 - pick(8)]) : Arg());
    finish(std::move(results), std::move(gradients));
    for (size_t i = 0; i < arguments; ++i) {
      Value* updated = early[pick(early.size())];
      if (pick(4) == 0 && updated->type.sizes == pool_[i]->type.sizes)
        joint.graph.mutations.push_back({pool_[i], updated});
    }
  }

 private:
  size_t pick(size_t below) { return random_() % below; }
  Value* of_shape(std::vector<int64_t> shape) {
    const std::vector<Dim> sizes(shape.begin(), shape.end());
    std::vector<Value*> fitting;
    for (Value* value : pool_)
      if (value->type.sizes == sizes) fitting.push_back(value);
    return fitting.empty() ? nullptr : fitting[pick(fitting.size())];
  }

  void grow(size_t steps) {
    for (size_t i = 0; i < steps; ++i)
      for (Value* value : step())
        if (value->type.is_tensor() && value->type.dtype == at::kFloat) pool_.push_back(value);
  }

  std::vector<Value*> step() {
    static constexpr const char* kUnary[] = {"aten::sin", "aten::sigmoid", "aten::relu", "aten::neg", "aten::tanh"};
    using Ints = std::vector<int64_t>;
    Value *any = pool_[pick(pool_.size())], *matrix = of_shape({4, 4}), *half = of_shape({2, 4}), *row = of_shape({4});
    Value* flat = of_shape({16});
    switch (pick(20)) {
      case 0:
      case 1:
      case 2:
        return {op(kUnary[pick(5)], {any})};
      case 3:
        return {add(matrix, of_shape({4, 4}))};
      case 4:
        return {mul(matrix, row)};
      case 5:
        return {mm(matrix, of_shape({4, 4}))};
      case 6:
        return {op("aten::sum", {matrix, constant(Ints{1}), constant(false), kNone}, "dim_IntList")};
      case 7:
        return {op("aten::_softmax", {matrix, constant(1), constant(false)})};
      case 8:
        return {t(matrix)};
      case 9:
        return {tensor(matrix).is_contiguous() ? op("aten::view", {matrix, constant(Ints{16})}) : t(matrix)};
      case 10:
        return {flat ? op("aten::view", {flat, constant(Ints{4, 4})}) : t(matrix)};
      case 11:
        return {op("aten::select", {matrix, constant(0), constant(int64_t(pick(4)))}, "int")};
      case 12:
        return {op("aten::expand", {row, constant(Ints{4, 4}), constant(false)})};
      case 13:
        return multi("aten::split", "Tensor", {matrix, constant(2), constant(0)});
      case 14:
        return {half ? op("aten::cat", {Arg::list({half, of_shape({2, 4})}), constant(0)}) : matrix};
      case 15:
        return multi("aten::native_dropout", "", {any, constant(0.5), constant(true)});
      case 16:
        return multi("aten::native_layer_norm", "", {matrix, constant(Ints{4}), row, kNone, constant(1e-5)});
      case 17:
        return {op("aten::mul", {any, op("fs_partition_test::draw", {row, kNone})}, "Scalar")};
      case 18:
        return {op("aten::as_strided", {matrix, constant(Ints{4}), constant(Ints{1}), kNone})};
      default:
        return write(matrix);
    }
  }

  // A copy, perhaps read before it is written to, perhaps written to through a view.
  std::vector<Value*> write(Value* matrix) {
    Value* copy = op("aten::clone", {matrix, kNone});
    std::vector<Value*> made = {copy};
    if (pick(2)) made.push_back(sin(copy));
    if (pick(2)) made.push_back(t(copy));
    add_into(pick(2) ? copy : t(copy), of_shape({4, 4}));
    return made;
  }

  std::mt19937 random_;
  std::vector<Value*> pool_;
};

}  // namespace firesteel::testing_joints
