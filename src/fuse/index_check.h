// What must hold of indices before a kernel may look things up by them: eager's error is raised where it does not.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace firesteel {

// A tensor as the node names it, in the memory of one of the kernel's inputs.
struct InputView {
  int32_t input = -1;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // from the input's first element
};

// The node's call, to be made where an index is out of bounds: it raises the error.
struct IndexCheck {
  struct Bounds {
    InputView indices;
    int64_t lowest, highest;
  };
  struct Argument {
    c10::IValue constant;
    std::vector<std::optional<InputView>> tensors;  // one, or those of a list
    bool is_list = false;
  };
  std::vector<Bounds> bounds;
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
};

}  // namespace firesteel
