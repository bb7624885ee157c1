// Keeps a tensor's layout through a write. Functionalization replaces what is written to by a new value, which may lie
// in memory otherwise (`masked_fill` gives a dense tensor, whatever it was called on); a later `reshape` or `view`
// would then copy, or fail, where eager makes a view.
#pragma once

#include <vector>

#include "aot/fake_tensor.h"
#include "aot/op_plan.h"

namespace firesteel {

class WrittenLayouts {
 public:
  // Before the operator runs: notes how the memory that it writes to is laid out.
  WrittenLayouts(const OpPlan& plan, c10::ArrayRef<c10::IValue> args);
  // After it: lays out anew what has changed.
  void restore() const;

 private:
  struct Written {
    at::Tensor tensor;
    SymbolicLayout layout;  // of the whole memory that `tensor` is a part of
  };
  std::vector<Written> written_;
};

}  // namespace firesteel
