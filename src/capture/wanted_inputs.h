// Tensors and arrays of globals, closures and attributes that a next attempt of a capture takes as inputs.
#pragma once

#include <vector>

#include "guards/source.h"

namespace firesteel::capture {

// The wishes of one capture, of all its attempts. While one lives it is that of its thread.
class WantedInputs {
 public:
  // `all`: every tensor that an attempt finds is wished for.
  explicit WantedInputs(bool all);
  ~WantedInputs();
  WantedInputs(const WantedInputs&) = delete;
  WantedInputs& operator=(const WantedInputs&) = delete;

  // What lies there. False where nobody listens, or no way of plain steps leads there from the call.
  static bool add(const guards::Source* source);
  // The same where every tensor is wished for.
  static void add_tensor(const guards::Source* source);

  // Adds what was wished for since the last time; true where some of it is new.
  bool take(std::vector<guards::SourcePath>& known);

 private:
  WantedInputs* outer_;
  bool all_;
  std::vector<guards::SourcePath> found_;
};

}  // namespace firesteel::capture
