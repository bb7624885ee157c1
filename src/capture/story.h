// What is kept of a capture for people: where it began, what it cost, and which call led to which operator.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "firesteel/stage_times.h"
#include "graph/graph.h"

namespace firesteel::capture {

struct Story {
  double began = 0;  // by the steady clock, in seconds
  StageTimes stages;
  // Of the torch-level graph's nodes: the line and the module each was called in, and those not looked into.
  std::vector<SourceRef> sources;
  std::vector<std::string> modules;
  std::vector<size_t> opaque;
  // Which of these nodes a source belongs to: ATen nodes carry the same.
  std::unordered_map<SourceRef, size_t> calls;
};

}  // namespace firesteel::capture
