// The autograd node of a compiled region: one for its whole forward, running its backward graph.
#pragma once

#include <map>
#include <mutex>

#include <torch/csrc/autograd/saved_variable.h>

#include "aot/autograd_nodes.h"
#include "runtime/tiers.h"

namespace firesteel {

// A backward graph as it runs.
struct BackwardVersion {
  BackwardVersion(Graph made, NativeCode native);

  Graph graph;
  TieredProgram program;
  std::vector<bool> reads;  // by tangent
};

// What every call of one region shares.
class BackwardPlan {
 public:
  BackwardPlan(std::string called, const Graph& graph, NativeCode native, std::vector<Type> traced_tangents);

  const std::string name;
  const std::vector<Type> tangents;  // as traced: gradients of another layout are copied into this one
  // Of each result, the tangents that it is computed from; empty where there is but one tangent.
  const std::vector<std::vector<size_t>> sources;
  const bool calls_user_code;

  using VersionRef = std::shared_ptr<const BackwardVersion>;
  // What runs where these tangents came back, made at the first such call. Any number of threads may ask.
  VersionRef version_for(const std::vector<bool>& given) const;
  VersionRef last() const;  // the one that was asked for last, or the whole graph

 private:
  const NativeCode native_;
  const VersionRef whole_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::map<std::vector<bool>, VersionRef> parts_;
  mutable VersionRef last_ = whole_;
};

class BackwardNode final : public torch::autograd::Node {
 public:
  // `symbols`: the sizes of the forward's call that the graphs leave open.
  BackwardNode(std::shared_ptr<const BackwardPlan> plan, SymbolValues symbols)
      : plan_(std::move(plan)), symbols_(std::move(symbols)) {}

  // `is_output`: the tensor is a result of this node; saving it plainly would make a cycle.
  // Autograd takes no inference tensor, whose changes nobody counts: a copy is saved in its place.
  void save(const at::Tensor& tensor, bool is_output) {
    saved_.emplace_back(tensor.is_inference() ? tensor.clone() : tensor, is_output);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  void release_variables() override;
  std::string name() const override { return plan_->name; }

 private:
  void release();

  std::shared_ptr<const BackwardPlan> plan_;
  SymbolValues symbols_;
  std::vector<torch::autograd::SavedVariable> saved_;
  bool released_ = false;
};

}  // namespace firesteel
