// Following the Python that autograd's engine runs while a backward is traced.
#include "capture/followed_backward.h"

#include <fmt/format.h>

#include "capture/frame_hook.h"

namespace firesteel::capture {

void FollowedBackward::give_up_for_writes(const std::string& name) {
  capture_.broken = capture_.break_here(BreakReason::Write, fmt::format("the backward of `{}`", name));
  PyErr_SetString(PyExc_RuntimeError, "the capture was given up");
}

bool FollowedBackward::forgive() {
  forgiven_ = std::exchange(capture_.broken, std::nullopt);
  return forgiven_.has_value();
}

void FollowedBackward::run(const std::function<void()>& backward) {
  const bool stopping = std::exchange(capture_.stopping, false);
  {
    const CaptureScope scope(capture_);
    const Unrecorded below(capture_);
    python::GilRelease no_gil;
    backward();
  }
  capture_.stopping = stopping;
}

}  // namespace firesteel::capture
