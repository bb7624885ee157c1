// Loop kernels in, machine code out. This header knows neither torch nor the code generator behind it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "firesteel/export.h"
#include "fuse/loop_ir.h"

namespace firesteel {

// Computes the points [begin, end) of the index space, counted in the order of its loops; where loops are reduced, rows
// or chunks of them (RowPlan), and in the end the range [-1, 0). `buffers` are those of the kernel, in its order; no
// output may share memory with anything else. Disjoint ranges may run at the same time.
// Behind the buffers stand, where the kernel wants them: a pointer to the numbers that it is given (LoopKernel::given,
// and with RowPlan::Cut::AsCalled the steps of a chunk and the number of chunks, 0 for whole rows); memory for what
// chunks make; memory for the kept values of a row, for this call alone, where the row's length is open.
using KernelFunction = void (*)(void* const* buffers, int64_t begin, int64_t end);

// One answer a kernel, null where none could be made. Kernels with the same text share their code, for ever.
// The machine to compile for is the one at hand, or less where FIRESTEEL_CPU (avx512, avx2, sse) says so.
FIRESTEEL_API std::vector<KernelFunction> compile_kernels(std::span<const LoopKernel* const> kernels);

// Kernels of a graph are used all or none: each relies on what the others write.
inline bool all_made(std::span<const KernelFunction> functions) {
  return std::find(functions.begin(), functions.end(), nullptr) == functions.end();
}

// What it took to make a kernel, for people who wonder.
struct KernelFacts {
  bool made = false;       // false: it could not be, and ATen runs its operators
  bool from_disk = false;  // its code was there from an earlier process
  double began = 0;        // by the steady clock, in seconds
  double seconds = 0;
};
// Empty for one that was not asked for yet, or is still to come.
FIRESTEEL_API std::optional<KernelFacts> kernel_facts(const LoopKernel& kernel);

// The answer for a kernel that has been asked for before; does not wait for a compilation.
FIRESTEEL_API std::optional<KernelFunction> known_kernel(const LoopKernel& kernel);

// For tests: kernels are made, or taken from disk, as if the process had just started. Those in use stay.
FIRESTEEL_API void forget_kernels();

// For tests: from now on no kernel can be made, and the next failure is told.
FIRESTEEL_API void fail_kernels(bool fail);

// For tests: kernels that are made from now on give floats of the wrong sign.
FIRESTEEL_API void spoil_kernels(bool spoil);

// Raises for a FIRESTEEL_CPU that means nothing.
void check_kernel_target();

// False where Firesteel was built without a code generator.
FIRESTEEL_API bool can_compile_kernels();

struct KernelCounters {
  uint64_t compiled = 0;  // machine code made
  uint64_t loaded = 0;    // taken from disk
  uint64_t shared = 0;    // found ready
  uint64_t failed = 0;    // asked for in vain
};
FIRESTEEL_API KernelCounters kernel_counters();
FIRESTEEL_API void reset_kernel_counters();

}  // namespace firesteel
