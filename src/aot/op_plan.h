// What tracing needs to know of an operator.
#pragma once

#include <memory>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include "aot/shape_rules.h"

namespace firesteel {

struct OpPlan {
  explicit OpPlan(const c10::OperatorHandle& op);

  // The keys a call with these arguments goes through, without those where the operator has nothing to do.
  c10::DispatchKeySet keys_for(const torch::jit::Stack* stack) const;

  c10::OperatorHandle op;
  size_t argument_count = 0, return_count = 0;
  ShapeRule rule = nullptr;
  // torch's own C++ shape kernel, also where a Python one has been registered over it.
  std::optional<c10::KernelFunction> cpp_meta;
  // A kernel for all devices that can run on meta tensors (only where the CPU has no kernel of its own).
  bool composite_explicit = false;
  bool composite_implicit = false;  // decomposes into other operators
  bool has_any_meta = false;        // C++ or Python
  bool data_dependent = false;      // reads data, or the shape of its result depends on data
  // Where that is so for some calls only (an index that is a mask): whether it is for this one.
  bool (*depends_for)(c10::ArrayRef<c10::IValue> args) = nullptr;
  bool is_of_user = false;  // not one of torch's own
  bool is_lift = false;  // lift_fresh and relatives: a constant enters
  bool is_random = false;
  bool is_mutable = false;
  bool is_view = false;  // of an argument, always
  bool depends_on_data(c10::ArrayRef<c10::IValue> args) const {
    return data_dependent && (!depends_for || depends_for(args));
  }

  int device_argument = -1;
  c10::SmallVector<uint8_t, 4> written_arguments;
};

// Kept for torch's own operators. Those of others may be taken back and defined anew, or get kernels later: each call
// looks again.
std::shared_ptr<const OpPlan> plan_of(const c10::OperatorHandle& op);

}  // namespace firesteel
