// Rebuilds a result that is a view of an input or of another result, so that it is one for autograd too.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// The chain of view operators that leads from `base` to a value, ready to run on a real tensor.
class ViewReplay {
 public:
  // The chain from any of `bases` to `value` in the graph. Where it is broken, `replay` works from the layout alone.
  ViewReplay(const Value* value, const std::vector<const Value*>& bases);

  // `computed` is what the graph gave for the value: its layout is the last resort.
  at::Tensor replay(const at::Tensor& base, const at::Tensor& computed) const;

 private:
  struct Step {
    c10::OperatorHandle op;
    std::vector<c10::IValue> args;  // the first is filled in with the tensor
    uint32_t output;
    bool returns_list;
  };
  std::vector<Step> steps_;  // first to last
  bool complete_ = false;
};

}  // namespace firesteel
