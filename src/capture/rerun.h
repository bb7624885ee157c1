// A graph that raised while it ran: whether the code itself may run instead, from the same start.
#pragma once

#include <vector>

#include <ATen/core/Generator.h>

namespace firesteel {
struct Trace;
}

namespace firesteel::capture {

class Capture;
struct BackendChoice;

struct Rerun {
  bool allowed = false;                   // an error of the graph leaves nothing behind
  std::vector<at::Generator> generators;  // but that numbers were drawn from these
  bool allowed_on_data = false;           // where data breaks what it takes for granted; it sets generators back itself
};

// No code of the user's, and no writes, which an ATen graph does after all that may raise.
Rerun rerun_of(const Trace& trace, const Capture& capture, const BackendChoice& backend);

}  // namespace firesteel::capture
