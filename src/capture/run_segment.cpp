// A compiled piece is run: its graph, then what it leaves in objects and frames.
#include <fmt/format.h>

#include "aot/data_ops.h"
#include "aot/random_start.h"
#include "capture/overridden_calls.h"
#include "capture/segment.h"
#include "python/errors.h"
#include "runtime/watched_runs.h"

namespace firesteel::capture {
namespace {

// `RuntimeError: index out of range in self` of the Python error that is set, and is no more.
std::string take_error_text() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), value_ref = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  PyRef text = value ? PyRef::steal(PyObject_Str(value)) : PyRef();
  if (!text) PyErr_Clear();
  const std::string_view message = python::text_of(text.get());
  return fmt::format("{}: {}", reinterpret_cast<PyTypeObject*>(type)->tp_name, message.substr(0, message.find('\n')));
}

// "firesteel step (train.py:41), graph 3"
std::string watched_name(const Segment& segment) {
  return fmt::format("{}{} ({}), graph {}", kWatchedPrefix, segment.function, watched_place(segment.file, segment.line),
                     segment.number);
}

// Values for a frame: those that it held are put into `old`, to be dropped when nothing can see it half-way.
void fill(FsFrame* frame, const FrameEnd& end, std::vector<PyRef>& locals, std::vector<PyRef>& stack,
          std::vector<PyRef>& old) {
  PyObject** place = fs_frame_locals(frame);
  for (size_t i = 0; i < locals.size(); ++i) {
    PyObject*& local = place[end.locals[i].first];
    old.push_back(PyRef::steal(local));
    local = locals[i].release();
  }
  PyObject** bottom = place + fs_frame_code(frame)->co_nlocalsplus;
  for (int i = 0; i < fs_frame_depth(frame); ++i) old.push_back(PyRef::steal(bottom[i]));
  for (size_t i = 0; i < stack.size(); ++i) bottom[i] = stack[i].release();
  fs_frame_set_depth(frame, static_cast<int>(stack.size()));
}

}  // namespace

BreakReason reason_of(RunEnd end) {
  switch (end) {
    case RunEnd::Raised:
      return BreakReason::Exception;
    case RunEnd::Mismatch:
      return BreakReason::DataDependent;
    default:
      return BreakReason::Unstable;
  }
}

RunEnd run_segment(const Segment& segment, PyObject* const* slots, PyThreadState* state, LiveFrames* frames,
                   PyRef& result, std::vector<MadeFrame>* made) {
  std::vector<PyRef> loads, outputs, pins;
  for (PyObject* object : segment.book.pins) pins.push_back(PyRef::borrow(object));
  loads.reserve(segment.book.load_slots.size());
  for (uint32_t slot : segment.book.load_slots) loads.push_back(PyRef::borrow(slots[slot]));
  {
    std::optional<WatchedRun> shown;
    if (segment.runner && is_watched()) shown.emplace(watched_name(segment));
    RandomStart start(segment.rerun.generators);
    const WithoutFunctionModes no_modes;
    try {
      if (segment.runner && !segment.runner->run(slots, outputs)) return RunEnd::Unfit;
    } catch (const DataMismatch& mismatch) {
      if (segment.rerun.allowed_on_data) return RunEnd::Mismatch;
      mismatch.raise();
    } catch (...) {
      if (!segment.rerun.allowed) throw;
      start.restore();
      python::set_python_error_or_runtime_error(std::current_exception());
      if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
        python::throw_python_error();
      segment.raised = take_error_text();
      return RunEnd::Raised;
    }
  }
  Cook cook(segment.book, loads, outputs);
  // Writes come first: an iterator made over a list that is still to be filled would be at its end.
  if (!segment.book.writes.empty()) cook.apply_writes();
  PyRef handled = segment.handled ? cook.make(*segment.handled) : PyRef();
  std::vector<PyRef> old;
  if (segment.kind == SegmentKind::Return) result = cook.make(segment.result);
  std::vector<MadeFrame> values;
  for (const FrameEnd& end : segment.frames) {
    MadeFrame& one = values.emplace_back(MadeFrame{{}, {}, {}, end.next, end.at});
    if (end.function >= 0) one.function = cook.make(end.function);
    for (const auto& [index, recipe] : end.locals) one.locals.push_back(cook.make(recipe));
    for (int32_t recipe : end.stack) one.stack.push_back(cook.make(recipe));
  }
  // From here on nothing can fail.
  if (segment.modes) segment.modes->apply();
  if (segment.handled) {
    PyObject*& exception = (state ? state : PyThreadState_Get())->exc_info->exc_value;
    old.push_back(PyRef::steal(exception));
    exception = handled.release();
  }
  for (size_t i = 0; i < segment.old_frames; ++i) {
    const FrameEnd& end = segment.frames[i];
    if (end.is_kept) continue;
    LiveFrame& live = (*frames)[i];
    fill(live.frame, end, values[i].locals, values[i].stack, old);
    const bool waits = i + 1 < segment.frames.size();
    live.resume = end.next;
    fs_frame_set_next(live.frame, waits ? end.at + 1 : end.next);
  }
  for (size_t i = segment.old_frames; i < values.size(); ++i) made->push_back(std::move(values[i]));
  return RunEnd::Done;
}

}  // namespace firesteel::capture
