// How costly an operator is to run a second time: the partitioner's one table of operators.
#pragma once

#include "graph/graph.h"

namespace firesteel {

// One table drives the enum and its spelling: class, spelling, what it means.
// clang-format off
#define FIRESTEEL_OP_CLASSES(X)                                                     \
  X(Free, "free", "views and metadata: nothing is read or written")                 \
  X(Cheap, "cheap", "pointwise, casts, fills: fuses into whatever reads it")        \
  X(Moderate, "moderate", "reductions, norms, softmax: one more pass over memory")  \
  X(Expensive, "expensive", "library calls, gathers, scatters, and all not listed")
// clang-format on

enum class OpClass : uint8_t {
#define X(name, text, meaning) name,
  FIRESTEEL_OP_CLASSES(X)
#undef X
};

const char* op_class_text(OpClass op_class);

// An operator that is neither in the table, nor a view, nor tagged pointwise by ATen is Expensive: not knowing is no
// licence to run it twice.
OpClass classify_op(const Op& op);

}  // namespace firesteel
