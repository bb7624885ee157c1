// A compiled kernel with the layouts it was compiled for: allocates its outputs and runs on torch's threads.
#pragma once

#include <optional>
#include <span>

#include <c10/util/SmallVector.h>

#include "codegen/kernel_compiler.h"
#include "fuse/fusion.h"
#include "fuse/row_plan.h"
#include "shapes/open_sizes.h"

namespace firesteel {

class KernelCall {
 public:
  // `function`: null where it is still to come; run() must wait for it.
  KernelCall(const FusedGroup& group, KernelFunction function);
  void provide(KernelFunction function) { function_ = function; }
  bool may_refuse() const { return !checks_.empty(); }  // raise an error for what its inputs hold

  // `inputs`: the group's, in order. `outputs`: as many as the group has, each replaced by a new tensor where it is not
  // one to write to, an input that may be overwritten. `symbols`: the values of the sizes that the group leaves open.
  void run(std::span<const at::Tensor* const> inputs, std::span<at::Tensor> outputs,
           std::span<const int64_t> symbols = {}) const;

 private:
  // A number, or one of those that a call's symbols give.
  struct Number {
    int64_t value = 0;
    int32_t open = -1;
  };
  struct Layout {
    at::ScalarType dtype;
    std::vector<Number> sizes, strides;
  };
  // What a call works with, all of it numbers.
  struct Sizes {
    struct Tensor {
      c10::SmallVector<int64_t, 5> sizes, strides;
    };
    c10::SmallVector<Tensor, 8> tensors;  // inputs, then outputs
    c10::SmallVector<int64_t, 16> given;  // for the kernel; where it asks, the chunks behind them
    std::vector<IndexCheck> checks;       // where they are other ones than those of all calls
    int64_t units = 0;                    // points, rows, or chunks of rows
    int64_t grain = 1;                    // units worth a thread
    int64_t chunk_slots = 0;              // of 8 bytes, for what chunks make
    int64_t kept_bytes = 0;               // for values of a row, where the kernel has no memory of its own for them
  };

  Number number_of(const Dim& dim);
  std::vector<Number> numbers_of(const std::vector<Dim>& dims);
  Layout layout_of(const Value* value);
  Sizes sizes_for(std::span<const int64_t> open) const;
  void run(std::span<const at::Tensor* const> inputs, std::span<at::Tensor> outputs, const Sizes& sizes) const;
  void run_units(void** buffers, size_t kept, const Sizes& sizes) const;
  static bool fits(const at::Tensor& tensor, at::ScalarType dtype, const Sizes::Tensor& layout);

  KernelFunction function_;
  std::vector<Layout> tensors_;  // inputs, then outputs
  std::vector<IndexCheck> checks_;
  std::vector<Number> check_numbers_;  // of all checks, in the order of IndexCheck::each_dim
  std::vector<Number> loops_, given_;
  size_t row_loops_ = 0;
  std::optional<RowPlan> plan_;  // where rows are reduced
  int64_t grain_points_ = 0;     // points worth a thread
  int64_t kept_a_point_ = 0;     // bytes
  std::vector<Dim> dims_;        // while being built
  std::optional<OpenSizes> open_;
  std::optional<Sizes> fixed_;  // where nothing is open
};

}  // namespace firesteel
