// The transient frame hook: set for one call of one function on one thread, gone as soon as its frame was seen.
#pragma once

#include <functional>

#include "capture/cpython/frame_shim.h"

namespace firesteel::capture {

// Runs the frame and gives back what its caller is to get (or null with an error), as a PEP 523 function does.
using FrameTaker = std::function<PyObject*(PyThreadState* state, FsFrame* frame)>;

class Capture;

// While one lives, every frame that starts or goes on on this thread belongs to the capture, unless it is suspended.
class CaptureScope {
 public:
  explicit CaptureScope(Capture& capture);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Capture* outer_;
};

// From now on no frame belongs to a capture while kernels that only tell shapes run.
void step_aside_for_shapes();

// The capture that frames of this thread belong to now; null where there is none, or it is suspended.
Capture* current_capture();

// Calls a Python function so that its own frame goes to `taker`; `taken` says whether it did. It does not where the
// arguments do not fit the function, or where some other tool was in between.
PyObject* call_hooked(PyObject* function, PyObject* const* args, size_t count, PyObject* keywords,
                      const FrameTaker& taker, bool& taken);

// Runs a frame as CPython would have.
PyObject* run_frame(PyThreadState* state, FsFrame* frame, int throwing = 0);

}  // namespace firesteel::capture
