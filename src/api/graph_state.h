// What a TracedGraph holds.
#pragma once

#include "compiler.h"
#include "firesteel/traced_graph.h"

namespace firesteel {

struct TracedGraph::State {
  std::string argument_structure, result_structure;
  AmbientState ambient;
  StageTimes times;
  std::optional<Executable> executable;
};

}  // namespace firesteel
