// A backward that reads data: one call in the graph that runs it as it is, on real tensors, at every backward pass.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/ivalue.h>

#include "graph/graph.h"

namespace firesteel {

class Recorder;

// What such a call runs. The language layer that the backward is written in derives from it.
class FIRESTEEL_API OpaqueBackward : public torch::CustomClassHolder {
 public:
  // One gradient for each of `results`, undefined where there is none. Gradients that came in may be undefined, too.
  virtual std::vector<at::Tensor> run(const std::vector<at::Tensor>& gradients,
                                      const std::vector<at::Tensor>& saved) = 0;

  std::string name;            // of the node in autograd's graph
  std::vector<Type> results;   // of the tensors that are differentiated: their gradients are like them, and contiguous
  std::vector<bool> may_miss;  // results that nothing in the graph reads: a missing one stays missing, as in eager code
};

// A try at tracing one node's backward, from here on.
class FIRESTEEL_API BackwardTry {
 public:
  explicit BackwardTry(const std::vector<at::Tensor>& gradients);
  // True where it failed for reading data, or was given up, and left nothing behind but operators that nobody needs:
  // neither the gradients nor what was saved for it may have been written to. The failure is then forgotten.
  bool undo(const std::vector<at::Tensor>& saved, bool gave_up);
  // The call that stands in its place: traced gradients, one for each of the results.
  std::vector<at::Tensor> call(const c10::intrusive_ptr<OpaqueBackward>& backward,
                               const std::vector<at::Tensor>& saved);

 private:
  bool is_untouched(const at::Tensor& tensor) const;

  std::shared_ptr<Recorder> recorder_;  // null where no gradient is a traced one
  std::vector<at::Tensor> gradients_;
  size_t node_count_ = 0;
  bool failed_before_ = false;
};

// To be called when all of the graph is there: says which gradients may be missing.
void note_missing_gradients(const Graph& graph);

}  // namespace firesteel
