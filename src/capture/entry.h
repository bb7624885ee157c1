// One compiled version of a function: the guards under which it holds, and what to run. And how one is made from a
// frame.
#pragma once

#include <memory>
#include <optional>

#include "capture/break_reasons.h"
#include "capture/call_shape.h"
#include "capture/cpython/frame_shim.h"
#include "capture/runner.h"
#include "guards/ambient.h"
#include "guards/guard_program.h"

namespace firesteel::capture {

struct Entry {
  CallShape shape;
  guards::Ambient ambient;
  guards::GuardProgram guards;
  std::unique_ptr<Runner> runner;  // null: under these guards the capture breaks, so the call runs eagerly
  std::optional<Break> broken;
  std::string graph_text;
};

// Interprets the frame of `function`, called with `arguments` of this shape. Always gives an entry: one to run, or one
// that remembers why there is none. Throws the Python error of an interrupt only.
std::shared_ptr<Entry> capture_frame(PyThreadState* state, FsFrame* frame, PyObject* function, const CallShape& shape,
                                     PyObject* const* arguments, Backend backend);

}  // namespace firesteel::capture
