// The frames of a call that runs in pieces: a graph break inside a function that was followed leaves its frame and all
// those that wait for it, each a real frame of CPython's.
#pragma once

#include <cstddef>
#include <vector>

#include "capture/cpython/frame_shim.h"
#include "python/py_ref.h"

namespace firesteel::capture {

struct LiveFrame {
  FsFrame* frame;
  PyObject* function;
  int resume = 0;  // where it goes on when the frame above has given its value; it stands at the call itself
};

// The code of a frame, and the instruction it goes on with.
struct CodePlace {
  PyCodeObject* code;
  int next;
  bool operator==(const CodePlace&) const = default;
};

// Where a piece starts: in a frame, for which others may wait; at instruction 0 of one alone: where a call does.
struct Place {
  CodePlace here;
  std::vector<CodePlace> waiting = {};  // the outermost first

  bool operator==(const Place&) const = default;
  bool starts_call() const { return here.next == 0 && waiting.empty(); }
  bool is_in(const PyCodeObject* code) const;
};

// The outermost first; the last one runs, the others wait for it and are on the thread's stack of frames.
class LiveFrames {
 public:
  explicit LiveFrames(LiveFrame outermost) : frames_{outermost} {}

  void push(LiveFrame frame) { frames_.push_back(frame); }
  void pop() { frames_.pop_back(); }
  size_t size() const { return frames_.size(); }
  const LiveFrame& operator[](size_t level) const { return frames_[level]; }
  LiveFrame& operator[](size_t level) { return frames_[level]; }
  const LiveFrame& top() const { return frames_.back(); }
  PyObject* function() const { return frames_.front().function; }  // where guards start

  Place place() const;
  // What guards look at: of one frame its locals and stack as they lie there; of several those of one after the other,
  // then the functions of all but the first. It lasts until a frame changes.
  PyObject* const* values();
  size_t first_value(size_t level) const;
  size_t function_value(size_t level) const;  // of any but the first

 private:
  std::vector<LiveFrame> frames_;
  std::vector<PyObject*> values_;
};

// A frame that a capture has left in the middle: what it holds, and where it goes on.
struct StoppedFrame {
  python::PyRef function;
  PyCodeObject* code;
  std::vector<python::PyRef> locals, stack;
  int next, at;
};

// Whether a break inside a function that was followed is one between its own instructions, or one at the call.
bool& follows_inner_breaks();

}  // namespace firesteel::capture
