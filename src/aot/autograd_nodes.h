// Makes autograd nodes: torch 2.13 counts them intrusively, 2.11 by shared_ptr.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

namespace firesteel {

using AutogradNodePtr = decltype(torch::autograd::Edge::function);

template <class Node, class... Args>
auto make_autograd_node(Args&&... args) {
  if constexpr (std::is_same_v<AutogradNodePtr, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Node>(std::forward<Args>(args)...);
  } else {
    return c10::make_intrusive<Node>(std::forward<Args>(args)...);
  }
}

}  // namespace firesteel
