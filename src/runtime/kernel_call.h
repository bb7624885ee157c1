// A compiled kernel with the layouts it was compiled for: allocates its outputs and runs on torch's threads.
#pragma once

#include <span>

#include "codegen/kernel_compiler.h"
#include "fuse/fusion.h"

namespace firesteel {

class KernelCall {
 public:
  // `function`: null where it is still to come; run() must wait for it.
  KernelCall(const FusedGroup& group, KernelFunction function);
  void provide(KernelFunction function) { function_ = function; }
  bool may_refuse() const { return !checks_.empty(); }  // raise an error for what its inputs hold

  // `inputs`: the group's, in order. `outputs`: as many as the group has, each replaced by a new tensor where it is not
  // one to write to, an input that may be overwritten.
  void run(std::span<const at::Tensor* const> inputs, std::span<at::Tensor> outputs) const;

 private:
  struct Layout {
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
  };
  static Layout layout_of(const Value* value);
  static bool fits(const at::Tensor& tensor, const Layout& layout);

  KernelFunction function_;
  std::vector<Layout> inputs_, outputs_;
  std::vector<IndexCheck> checks_;
  int64_t units_;            // points, rows, or chunks of rows
  int64_t grain_;            // units worth a thread
  int64_t chunk_slots_ = 0;  // of 8 bytes, for what chunks make
};

}  // namespace firesteel
