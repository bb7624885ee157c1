// Stands in for the CPU code generator where Firesteel is built without LLVM: every kernel stays with ATen.
#include "codegen/kernel_compiler.h"

namespace firesteel {

std::vector<KernelFunction> compile_kernels(std::span<const LoopKernel* const> kernels) {
  return std::vector<KernelFunction>(kernels.size(), nullptr);
}

std::optional<KernelFacts> kernel_facts(const LoopKernel&) { return std::nullopt; }
std::optional<KernelFunction> known_kernel(const LoopKernel&) { return nullptr; }

void check_kernel_target() {}
bool can_compile_kernels() { return false; }
void forget_kernels() {}
void fail_kernels(bool) {}
void spoil_kernels(bool) {}

KernelCounters kernel_counters() { return {}; }
void reset_kernel_counters() {}

}  // namespace firesteel
