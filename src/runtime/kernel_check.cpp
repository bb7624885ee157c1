// Asks ATen for everything that a kernel reads or writes, then runs the kernel on what it reads.
#include "runtime/kernel_check.h"

#include "fuse/fusion.h"
#include "runtime/program.h"
#include "runtime/tiers.h"

namespace firesteel {

void compare_kernels(const Graph& graph, const std::vector<at::Tensor>& inputs, bool is_backward,
                     std::vector<KernelResult>& found) {
  Graph chosen = graph.clone();
  prepare_for_native(chosen);
  const std::vector<FusedGroup> groups =
      can_compile_kernels() ? fuse(chosen, fuse_options()) : std::vector<FusedGroup>();
  const size_t own_outputs = chosen.outputs.size();
  for (const FusedGroup& group : groups) {
    for (const auto* values : {&group.inputs, &group.outputs}) {
      for (const Value* value : *values) chosen.outputs.emplace_back(const_cast<Value*>(value));
    }
  }
  const std::vector<at::Tensor> results = Program(chosen).run(inputs);
  size_t next = own_outputs;
  for (size_t i = 0; i < groups.size(); ++i) {
    const FusedGroup& group = groups[i];
    const LoopKernel* kernel = &group.kernel;
    const KernelFunction function = compile_kernels({&kernel, 1}).front();
    std::vector<const at::Tensor*> read;
    for (size_t k = 0; k < group.inputs.size(); ++k) read.push_back(&results[next++]);
    std::vector<at::Tensor> written(group.outputs.size());
    if (function) KernelCall(group, function).run(read, written);
    for (const at::Tensor& native : written) {
      const at::Tensor& aten = results[next++];
      if (function) found.push_back({is_backward, i, native, aten});
    }
  }
}

}  // namespace firesteel
