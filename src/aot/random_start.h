// Where generators stand when a graph starts, to go back to where its run does not count.
#pragma once

#include <vector>

#include <ATen/core/Generator.h>

#include "graph/graph.h"

namespace firesteel {

// Adds the generator that a random operator draws from, where it is not among them.
FIRESTEEL_API void add_generator_of(const Node& node, std::vector<at::Generator>& generators);

class FIRESTEEL_API RandomStart {
 public:
  explicit RandomStart(const std::vector<at::Generator>& generators);
  void restore();

 private:
  struct Start {
    at::Generator generator, copy;
  };
  std::vector<Start> starts_;
};

}  // namespace firesteel
