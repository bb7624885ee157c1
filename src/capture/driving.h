// What Region's two files share: the region that runs on a thread, and the end of a frame by an error.
#pragma once

#include "capture/cpython/frame_shim.h"

namespace firesteel::capture {

class Region;

// While one lives, what an instruction calls eagerly is compiled in pieces of that region; null: of none.
class RegionScope {
 public:
  explicit RegionScope(Region* region);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  Region* outer_;
};

struct Segment;

// The graph of a segment has raised, and the code itself gave `result`: where it has not raised, that is worth a
// warning, once a graph. Gives the result, or null where warnings are errors. `may_be_met`: the code has
// handlers that may have caught the error, or the error may come later, in a frame below; neither is worth one, nor is
// data other than a graph can take.
PyObject* told_of_raised(const Segment& segment, bool may_be_met, PyObject* result);
// The code has handlers.
bool has_handlers(const PyCodeObject* code);

// Ends the frame with the C++ exception at hand as its Python error.
PyObject* finish_with_error(PyThreadState* state, FsFrame* frame);

}  // namespace firesteel::capture
