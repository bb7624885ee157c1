// A call in pieces: a piece, one instruction for real, the next piece; along one frame, and into those it has entered.
#include "capture/driving.h"

#include <algorithm>

#include <fmt/format.h>

#include "capture/counters.h"
#include "capture/events.h"
#include "capture/frame_hook.h"
#include "capture/frame_interpreter.h"
#include "capture/overridden_calls.h"
#include "capture/region.h"
#include "capture/stance.h"
#include "capture/wrapper_tensors.h"
#include "python/errors.h"
#include "python/tensor_objects.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

bool holds_special_tensor(const std::vector<PyRef>& stack) {
  return std::any_of(stack.begin(), stack.end(), [](const PyRef& value) {
    return value && python::is_tensor(value.get()) && !may_be_input(value.get());
  });
}

// No piece can start from a stack that holds a tensor of a class with rules of its own.
Ending leave_special_tensors(FrameInterpreter& interpreter, Ending ending) {
  while (ending == Ending::Stopped && holds_special_tensor(interpreter.stack())) ending = interpreter.run_one();
  return ending;
}

// A frame that waits for another is on the thread's stack of frames.
class Linked {
 public:
  Linked(PyThreadState* state, FsFrame* frame) : state_(state), frame_(frame) {
    python::check(fs_frame_link(state, frame, &link_) == 0);
  }
  ~Linked() { fs_frame_unlink(state_, frame_, &link_); }
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;

 private:
  PyThreadState* state_;
  FsFrame* frame_;
  FsLink link_;
};

// Firesteel cannot go on with a call that a piece has entered.
void set_stuck_error(PyObject* function, const char* why, const char* advice) {
  const std::string_view name = python::text_of(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
  const std::string text = fmt::format(
      "the call of `{}` cannot go on after a graph break\n  reason: {} [{}]\n  try: {}, or mark the function "
      "@firesteel.disable",
      name, why, row(BreakReason::Hook).id, advice);
  PyErr_SetString(PyExc_RuntimeError, python::insert_place(text, python::show_user_line()).c_str());
}

// Calls a function so that its frame comes into being, whatever its parameters: `taker` fills it.
PyRef call_for_frame(PyObject* function, const FrameTaker& taker) {
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  const std::vector<PyObject*> nothing(code->co_argcount + code->co_kwonlyargcount + 1, Py_None);
  PyRef keywords;
  if (code->co_kwonlyargcount) {
    keywords = python::checked(PyTuple_New(code->co_kwonlyargcount));
    for (int i = 0; i < code->co_kwonlyargcount; ++i)
      PyTuple_SET_ITEM(keywords.get(), i, Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, code->co_argcount + i)));
  }
  bool taken = false;
  PyRef result = PyRef::steal(call_hooked(function, nothing.data(), code->co_argcount, keywords.get(), taker, taken));
  if (!taken) {
    // The call itself may have failed: the stack of calls is full, or memory is.
    if (!result) return {};
    set_stuck_error(function, "another tool has run the function instead of Firesteel, which was to go on with it",
                    "switch off the tool that evaluates Python's frames (a debugger, a profiler)");
    return {};
  }
  return result;
}

void fill(FsFrame* frame, MadeFrame& made, bool waits) {
  PyObject** place = fs_frame_locals(frame);
  std::vector<PyRef> old;
  for (PyRef& value : made.locals) {
    old.push_back(PyRef::steal(*place));
    *place++ = value.release();
  }
  for (PyRef& value : made.stack) *place++ = value.release();
  fs_frame_set_depth(frame, static_cast<int>(made.stack.size()));
  fs_frame_set_next(frame, waits ? made.at + 1 : made.next);
}

}  // namespace

PyObject* finish_with_error(PyThreadState* state, FsFrame* frame) {
  python::set_python_error_or_runtime_error(std::current_exception());
  tell_error(fs_frame_code(frame));
  return fs_frame_finish(state, frame, nullptr);
}

PyObject* Region::run_concretely(PyThreadState* state, FsFrame* frame) {
  Capture concrete(std::string(python::text_of(fs_frame_code(frame)->co_name)), Capture::Mode::Concrete);
  return *advance(state, frame, concrete, [](FrameInterpreter& interpreter) { return interpreter.run(); });
}

PyObject* Region::run_on(PyThreadState* state, FsFrame* frame, BreakReason reason) {
  ++counters().fallbacks[static_cast<size_t>(reason)];
  tell_fallback(fs_frame_code(frame), reason);
  if (fs_frame_next(frame) == 0) hide_free_variables(frame);
  RegionScope outside(nullptr);
  return run_frame(state, frame);
}

// The piece that goes on from here, found or made; empty where the frame has ended otherwise, with `ended`.
std::shared_ptr<Segment> Region::next_segment(PyThreadState* state, LiveFrames& frames, Capture& concrete, Slots& slots,
                                              std::optional<PyObject*>& ended) {
  FsFrame* frame = frames.top().frame;
  PyObject* function = frames.function();
  for (;;) {
    if (fs_is_monitored(state)) return ended = run_on(state, frame, BreakReason::Monitored), nullptr;
    const Place place = frames.place();
    Bucket& here = pieces_.bucket(place);
    if (std::shared_ptr<Segment> found = pieces_.find_rest(place, here, frames, slots)) return found;
    const CallValues values{frames.values(), 0, nullptr};
    here.drop_stale();
    if (stance_kind() == StanceKind::EagerOnRecompile)
      return ended = run_on(state, frame, BreakReason::Stance), nullptr;
    if (stance_kind() == StanceKind::FailOnRecompile) refuse_to_compile(here, function, values);
    if (!may_compile(here, function, values, /*whole=*/false))
      return ended = fs_frame_finish(state, frame, nullptr), nullptr;
    if (here.gave_up) return ended = run_on(state, frame, BreakReason::Limit), nullptr;
    if (guards::Ambient::current().python_modes) {
      if ((ended = run_under_modes(state, frame, concrete))) return nullptr;
      continue;
    }
    ++counters().misses;
    note_recompile(here, function, values);
    pieces_.note_moving(place, function, values);
    std::shared_ptr<Segment> segment =
        capture_segment({state, frames, nullptr, nullptr, &here.moving}, options_.backend, /*whole=*/false);
    tell_capture(*segment);
    if (segment->kind != SegmentKind::Eager) ++counters().captured;
    if (segment->kind != SegmentKind::Concrete && !segment->matches(frames.values(), function, slots))
      return ended = run_on(state, frame, BreakReason::Unstable), nullptr;
    pieces_.add(here, segment);
    return segment;
  }
}

// Runs the piece at hand. What the frame's caller must get, where it has ended without.
std::optional<PyObject*> Region::run_piece(PyThreadState* state, LiveFrames& frames, Progress& progress, Slots& slots) {
  FsFrame* frame = frames.top().frame;
  const Segment& segment = *progress.segment;
  progress.has_run = true;
  progress.level = progress.kept = frames.size() - 1;
  const bool one_step = segment.kind == SegmentKind::Eager && segment.broken->reason == BreakReason::TensorKind;
  if (segment.kind == SegmentKind::Concrete || one_step) return std::nullopt;
  if (segment.kind == SegmentKind::Eager) return run_on(state, frame, segment.broken->reason);
  if (segment.kind == SegmentKind::Skipped) {
    ++counters().breaks[static_cast<size_t>(segment.broken->reason)];
    return run_concretely(state, frame);
  }
  const RunEnd end = run_segment(segment, slots.data(), state, &frames, progress.result, &progress.made);
  if (end == RunEnd::Raised) {
    const std::shared_ptr<Segment> raised = progress.segment;                          // the code may drop it
    const bool may_be_met = frames.size() != 1 || has_handlers(fs_frame_code(frame));  // which may be gone afterwards
    return told_of_raised(*raised, may_be_met, run_on(state, frame, BreakReason::Exception));
  }
  if (end != RunEnd::Done) return run_on(state, frame, reason_of(end));
  const bool returns = segment.kind == SegmentKind::Return;
  progress.level = returns ? 0 : segment.frames.size() - 1;
  progress.kept = returns ? 0 : segment.old_frames - 1;
  return std::nullopt;
}

// Up to the instruction that breaks, and over it.
std::optional<PyObject*> Region::run_broken(PyThreadState* state, FsFrame* frame, const Segment& segment,
                                            Capture& concrete) {
  // A break in a function called inside counts there, when it is called by itself; one for the depth of calls is never
  // met again.
  if (segment.broken->depth <= 1 || segment.broken->reason == BreakReason::Depth)
    ++counters().breaks[static_cast<size_t>(segment.broken->reason)];
  const int end = segment.kind == SegmentKind::Eager ? fs_frame_next(frame) : segment.end;
  return advance(state, frame, concrete, [&](FrameInterpreter& interpreter) {
    Ending ending = interpreter.next() != end ? interpreter.run_to(end) : Ending::Stopped;
    if (ending == Ending::Stopped) ending = interpreter.run_one();
    return leave_special_tensors(interpreter, ending);
  });
}

// Makes the frame that a piece has entered, on top of the one that waits for it, and runs it to its end.
std::optional<PyObject*> Region::run_entered(PyThreadState* state, LiveFrames& frames, Progress& progress,
                                             Capture& concrete, Slots& slots) {
  const size_t level = frames.size() - 1;
  FsFrame* frame = frames.top().frame;
  MadeFrame made = std::move(progress.made.front());
  progress.made.erase(progress.made.begin());
  bool begun = false;
  const FrameTaker taker = [&](PyThreadState* same, FsFrame* entered) -> PyObject* {
    PyCodeObject* code = fs_frame_code(entered);
    if (made.locals.size() != static_cast<size_t>(code->co_nlocalsplus) ||
        made.stack.size() > static_cast<size_t>(code->co_stacksize)) {
      set_stuck_error(made.function.get(), "its code was changed (`__code__`) while a call of it was on its way",
                      "change the code of functions outside of compiled calls");
      return fs_frame_finish(same, entered, nullptr);
    }
    begun = true;
    progress.kept = level + 1;
    fill(entered, made, progress.level > level + 1);
    PyObject* result = nullptr;
    try {
      frames.push({entered, made.function.get(), made.next});
      result = drive(same, frames, progress, slots);
    } catch (...) {
      progress = {};
      result = finish_with_error(same, entered);
    }
    frames.pop();
    return result;
  };
  PyRef value;
  {
    const Linked linked(state, frame);
    value = call_for_frame(made.function.get(), taker);
  }
  if (!begun) progress = {};
  if (progress.segment) return std::nullopt;  // a piece has ended that frame, and perhaps this one
  return advance(state, frame, concrete, [&](FrameInterpreter& interpreter) {
    if (!value) return interpreter.raise();
    interpreter.resume(std::move(value), frames[level].resume);
    return leave_special_tensors(interpreter, Ending::Stopped);
  });
}

PyObject* Region::drive(PyThreadState* state, LiveFrames& frames, Progress& progress, Slots& slots) {
  const size_t level = frames.size() - 1;
  FsFrame* frame = frames.top().frame;
  bool served = level > 0;
  Capture concrete(std::string(python::text_of(fs_frame_code(frame)->co_name)), Capture::Mode::Concrete);
  for (;;) {
    std::optional<PyObject*> ended;
    if (!progress.segment) progress.segment = next_segment(state, frames, concrete, slots, ended);
    const bool runs = !ended && !progress.has_run;
    if (runs) {
      try {
        ended = run_piece(state, frames, progress, slots);
      } catch (...) {
        // The handlers that the frame stood in when the piece began: blocks that were entered are left.
        python::set_python_error_or_runtime_error(std::current_exception());
        progress = {};
        ended = advance(state, frame, concrete, [](FrameInterpreter& interpreter) { return interpreter.raise(); });
        if (!ended) continue;
      }
    }
    if (!ended && progress.kept < level) {
      // This frame has ended inside the piece; one that waited for it goes on, or ends, too.
      return fs_frame_finish(state, frame, Py_NewRef(Py_None));
    }
    if (!ended) {
      const Segment& segment = *progress.segment;
      const bool is_graph = segment.kind == SegmentKind::Return || segment.kind == SegmentKind::Break;
      if (runs && is_graph && !std::exchange(served, true)) ++counters().hits;
      if (segment.kind == SegmentKind::Return) {
        ended = fs_frame_finish(state, frame, progress.result.release());
      } else if (progress.level > level) {
        ended = run_entered(state, frames, progress, concrete, slots);
        if (progress.segment && !ended) continue;
      } else {
        const std::shared_ptr<Segment> done = std::exchange(progress.segment, nullptr);
        progress.has_run = false;
        ended = run_broken(state, frame, *done, concrete);
      }
    }
    if (!ended) continue;
    progress = {};
    return *ended;
  }
}

// While a function or dispatch mode is on nothing is compiled: one instruction after the other, until it is off again.
std::optional<PyObject*> Region::run_under_modes(PyThreadState* state, FsFrame* frame, Capture& concrete) {
  ++counters().breaks[static_cast<size_t>(BreakReason::Modes)];
  return advance(state, frame, concrete, [](FrameInterpreter& interpreter) {
    Ending ending = Ending::Stopped;
    while (ending == Ending::Stopped && guards::Ambient::current().python_modes) ending = interpreter.run_one();
    return ending;
  });
}

// Runs some of a frame for real. What its caller must get, where it has ended.
template <class Run>
std::optional<PyObject*> Region::advance(PyThreadState* state, FsFrame* frame, Capture& concrete, Run&& run) {
  std::optional<Break> unknown;
  Ending ending = Ending::Stopped;
  PyRef result;
  {
    RegionScope inside(this);
    FrameInterpreter interpreter(concrete, state, frame);
    try {
      ending = run(interpreter);
    } catch (const Break& found) {
      unknown = found;  // an instruction that only CPython knows
      interpreter.go_back();
    }
    if (ending == Ending::Stopped) interpreter.store();  // one that ended stays where it was
    result = interpreter.take_result();
  }
  if (ending == Ending::Returned) return fs_frame_finish(state, frame, result.release());
  if (ending == Ending::Raised) return fs_frame_finish(state, frame, nullptr);
  if (unknown) return run_on(state, frame, unknown->reason);
  return std::nullopt;
}

}  // namespace firesteel::capture
