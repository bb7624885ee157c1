// How long each stage took to make one graph.
#pragma once

#include <string>

#include "firesteel/export.h"

namespace firesteel {

struct FIRESTEEL_API StageTimes {
  double trace_ms = 0;       // the function ran on fake tensors, forward and backward
  double passes_ms = 0;      // the graph was simplified
  double partition_ms = 0;   // it was cut into a forward and a backward graph
  double executable_ms = 0;  // its calls were laid out

  double total_ms() const { return trace_ms + passes_ms + partition_ms + executable_ms; }
  std::string str() const;  // "trace 1.2 ms, passes 0.1 ms, …"
};

}  // namespace firesteel
