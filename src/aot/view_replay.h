// Rebuilds a result that is a view of an input or of another result, so that it is one for autograd too.
#pragma once

#include <span>

#include "graph/graph.h"

namespace firesteel {

// The chain of view operators that leads from `base` to a value, ready to run on a real tensor.
class FIRESTEEL_API ViewReplay {
 public:
  // The chain from the nearest of `bases` to `value`, in the graph as it was recorded: passes may turn it round. Where
  // it is broken, `replay` works from the layout alone.
  ViewReplay(const Value* value, const std::vector<const Value*>& bases);

  // `computed` is what the graph gave for the value: its layout is the last resort.
  at::Tensor replay(const at::Tensor& base, const at::Tensor& computed, std::span<const int64_t> symbols) const;

  bool is_complete() const { return complete_; }
  size_t base() const { return base_; }  // which of `bases` the chain starts from

 private:
  struct Step {
    c10::OperatorHandle op;
    std::vector<Arg> args;  // the first is filled in with the tensor
    uint32_t output;
    bool returns_list;
  };
  std::vector<Step> steps_;  // first to last
  size_t base_ = 0;
  bool complete_ = false;
};

}  // namespace firesteel
