// How the values of several frames lie one after the other.
#include "capture/live_frames.h"

#include <algorithm>

namespace firesteel::capture {
namespace {

size_t value_count(FsFrame* frame) {
  return static_cast<size_t>(fs_frame_code(frame)->co_nlocalsplus + fs_frame_depth(frame));
}

}  // namespace

bool Place::is_in(const PyCodeObject* code) const {
  return here.code == code ||
         std::any_of(waiting.begin(), waiting.end(), [&](const CodePlace& one) { return one.code == code; });
}

Place LiveFrames::place() const {
  Place place{{fs_frame_code(top().frame), fs_frame_next(top().frame)}};
  for (size_t i = 0; i + 1 < size(); ++i) place.waiting.push_back({fs_frame_code(frames_[i].frame), frames_[i].resume});
  return place;
}

PyObject* const* LiveFrames::values() {
  if (size() == 1) return fs_frame_locals(top().frame);
  values_.clear();
  for (const LiveFrame& live : frames_) {
    PyObject** first = fs_frame_locals(live.frame);
    values_.insert(values_.end(), first, first + value_count(live.frame));
  }
  for (size_t level = 1; level < size(); ++level) values_.push_back(frames_[level].function);
  return values_.data();
}

size_t LiveFrames::first_value(size_t level) const {
  size_t first = 0;
  for (size_t i = 0; i < level; ++i) first += value_count(frames_[i].frame);
  return first;
}

size_t LiveFrames::function_value(size_t level) const { return first_value(size()) + level - 1; }

bool& follows_inner_breaks() {
  static bool follows = true;
  return follows;
}

}  // namespace firesteel::capture
