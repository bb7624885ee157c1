// The passes by name: one table drives running, listing and the text tests.
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace firesteel {

// function (and name), what it does.
#define FIRESTEEL_PASSES(X)                                                           \
  X(dead_code, "drops pure nodes whose results nobody uses")                          \
  X(common_subexpressions, "computes equal pure expressions once")                    \
  X(constant_folding, "computes small constant expressions now, drops x*1 and alike") \
  X(view_simplification, "joins chains of views, drops views and copies that change nothing")

struct Pass {
  std::string_view name;
  std::string_view doc;
  bool (*run)(Graph& graph);  // true where something changed
};

FIRESTEEL_API std::span<const Pass> all_passes();

// Runs one pass and verifies what it made. True where something changed.
FIRESTEEL_API bool run_pass(std::string_view name, Graph& graph);

}  // namespace firesteel
