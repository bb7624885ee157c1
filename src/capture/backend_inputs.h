// What a backend that is a function is told of a graph's inputs, in the words of PyTorch's graphs.
#pragma once

#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/segment.h"

namespace firesteel::capture {

struct BackendInput {
  uint32_t slot;     // of the guard program
  std::string path;  // `L['x']`, `G['scale']`, `L['self']._modules['fc']._parameters['weight']`
  // Of a module's parameters and buffers, which PyTorch looks at as soon as they are read: how many calls came before.
  std::optional<size_t> calls_before;
  // Dimensions whose sizes the graph leaves open, counted from behind where 0 and 1 are among these.
  std::vector<int32_t> open;
  std::vector<int32_t> apart;  // those of them that are equal to others by chance alone
  // How a number comes about: ("size", path, dimension), ("number", path), a number itself, or (function, first[,
  // second]) of these. Empty for a tensor.
  PyRef number;
};

// Spells ways to values as PyTorch does. Made before the code runs: what the frames hold changes then.
class BackendPaths {
 public:
  explicit BackendPaths(const SegmentStart& start);

  std::string of(const Source* source) const;

 private:
  std::string of_item(const Source& item) const;
  std::string of_argument(const std::string& name) const;
  std::string of_default(int64_t index) const;

  PyRef function_;
  bool calls_module_ = false;
  std::vector<std::string> forward_;  // parameters of the module's own forward()
  std::vector<std::string> values_;   // of what the frames hold; empty at the start of a call
};

// Of every input of the graph; `slots` are theirs.
std::vector<BackendInput> backend_inputs(const Capture& capture, const BackendPaths& paths,
                                         const std::vector<uint32_t>& slots);

}  // namespace firesteel::capture
