// What must hold of indices before a kernel may look things up by them: eager's error is raised where it does not.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "graph/dim.h"

namespace firesteel {

// A tensor as the node names it, in the memory of one of the kernel's inputs.
struct InputView {
  int32_t input = -1;
  std::vector<Dim> sizes, strides;
  Dim offset = 0;  // from the input's first element
};

// The node's call, to be made where an index is out of bounds: it raises the error.
struct IndexCheck {
  struct Bounds {
    InputView indices;
    Dim lowest, highest;
  };
  struct Argument {
    c10::IValue constant;
    std::vector<std::optional<InputView>> tensors;  // one, or those of a list
    bool is_list = false;
  };
  std::vector<Bounds> bounds;
  c10::OperatorHandle op;
  std::vector<Argument> arguments;

  // Calls `visit(Dim&)` for all sizes, strides, offsets and bounds, in order.
  template <class F>
  void each_dim(F&& visit) {
    auto visit_view = [&](InputView& view) {
      for (Dim& size : view.sizes) visit(size);
      for (Dim& stride : view.strides) visit(stride);
      visit(view.offset);
    };
    for (Bounds& bound : bounds) {
      visit_view(bound.indices);
      visit(bound.lowest);
      visit(bound.highest);
    }
    for (Argument& argument : arguments) {
      for (std::optional<InputView>& view : argument.tensors) {
        if (view) visit_view(*view);
      }
    }
  }
};

}  // namespace firesteel
