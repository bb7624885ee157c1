// A trace made callable: checks its inputs, runs the graph, applies mutations, rebuilds views, and is one autograd
// node.
#pragma once

#include <memory>

#include "aot/trace.h"
#include "partition/partition.h"
#include "runtime/kernel_check.h"
#include "runtime/run_plan.h"
#include "runtime/signature.h"
#include "runtime/tiers.h"

namespace firesteel {

// A graph without open sizes, and what a call gives it.
struct GraphWithInputs {
  Graph graph;
  std::vector<at::Tensor> inputs;
};

class FIRESTEEL_API Executable {
 public:
  // `parts`: the trace's joint graph cut in two; its forward alone where the trace has no backward.
  // `freeze`: weights of one without a backward are prepared once (freeze/freeze.h).
  Executable(Trace trace, Partitioned parts, NativeCode native = NativeCode::None, bool freeze = false);
  ~Executable();
  Executable(Executable&&) noexcept;

  // Flat inputs as traced (role Argument). Throws InputMismatchError naming the input, the fact and both values.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const;
  // The same for one who has the tensors of signature().captured(), lends them for the call, and knows those that were
  // let go to be as they were traced.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& captured) const;
  // The same for inputs that `signature()` is known to match.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;
  // The message that operator() would throw, or an empty string.
  std::string mismatch(const std::vector<at::Tensor>& inputs) const;
  const Signature& signature() const;
  double began() const;  // when it began to be made, by the steady clock, in seconds
  // From now on these captured tensors live as long as others hold them; a call after that is a mismatch.
  void let_go(const TensorSet& captured);

  const Graph& joint() const;     // the whole trace
  const Graph& forward() const;   // the joint itself where there is no backward
  const Graph* backward() const;  // null where there is none
  // How the forward graph runs, and the backward one where there is one.
  std::vector<RunPlan> run_plans() const;
  // What each kernel gives beside what ATen gives, for inputs as of operator(); the backward's for random gradients.
  std::vector<KernelResult> compare_kernels(const std::vector<at::Tensor>& inputs,
                                            std::vector<at::Tensor>& captured) const;
  // The forward graph, and the backward one where there is one, with what a call gives them: for random gradients.
  std::vector<GraphWithInputs> parts_for(const std::vector<at::Tensor>& inputs,
                                         std::vector<at::Tensor>& captured) const;
  // What the sizes that the graph leaves open must meet, one a line, with the user's line that asks for it.
  std::vector<std::string> conditions() const;
  const Tree& input_tree() const;
  const Tree& output_tree() const;  // of the results

 private:
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments, std::vector<at::Tensor>& captured) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firesteel
