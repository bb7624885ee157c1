// Runs the few operators between a constant and what is asked for.
#include "aot/constant_values.h"

#include "aot/dispatch_keys.h"
#include "graph/passes/evaluate.h"
#include "graph/passes/purity.h"

namespace firesteel {
namespace {

constexpr int kDeepest = 32;
constexpr int64_t kLargest = 64;  // elements: what a program computes sizes and settings with

bool is_small(const Type& type) {
  if (!type.is_tensor() || !type.device.is_cpu()) return false;
  int64_t count = 1;
  for (const Dim& size : type.sizes) {
    if (!size.is_number()) return false;
    count *= size.number();
  }
  return count <= kLargest;
}

// Throws where an operator does; it did not for its shapes, and would for its values.
at::Tensor value_at(const Recorder& recorder, const Value* value, int depth) {
  if (const at::Tensor* known = recorder.constant_of(value)) return *known;
  const Node* node = value->def;
  if (!node || depth == kDeepest || !is_small(value->type) || !is_pure(*node) || node->has_dim()) return {};
  std::vector<std::pair<const Value*, at::Tensor>> inputs;
  bool known = true;
  node->each_input([&](const Value* input) {
    if (known) inputs.emplace_back(input, value_at(recorder, input, depth + 1));
    known = known && inputs.back().second.defined();
  });
  if (!known || inputs.empty()) return {};
  return evaluate(*node,
                  [&](const Value* input) {
                    for (const auto& [of, tensor] : inputs) {
                      if (of == input) return tensor;
                    }
                    return at::Tensor();
                  })
      .at(value->index);
}

}  // namespace

at::Tensor constant_value(const Recorder& recorder, const Value* value) {
  OutsideTrace outside;
  return value_at(recorder, value, 0);
}

}  // namespace firesteel
