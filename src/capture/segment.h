// One compiled piece of a function: from an instruction to a graph break or the return, under guards.
#pragma once

#include <memory>
#include <optional>

#include "capture/break_reasons.h"
#include "capture/call_shape.h"
#include "capture/live_frames.h"
#include "capture/modes.h"
#include "capture/recipe.h"
#include "capture/rerun.h"
#include "capture/runner.h"
#include "capture/story.h"
#include "guards/ambient.h"
#include "guards/guard_program.h"
#include "guards/registrations.h"
#include "python/user_frames.h"

namespace firesteel::capture {

enum class SegmentKind : uint8_t {
  Return,    // ends with the function's result
  Break,     // ends before an instruction that runs eagerly
  Concrete,  // no tensor operation before that instruction: runs as it is, unguarded
  Eager,     // no piece can be compiled from here: the frame runs on as it is
  Skipped,   // the frame runs on as it is, and what it calls is compiled
};

// How a piece leaves a frame that has not ended.
struct FrameEnd {
  bool is_kept = false;                             // it has only waited: all is as it was
  int32_t function = -1;                            // recipes: of a frame that is made anew,
  std::vector<std::pair<int32_t, int32_t>> locals;  // for each local that changed,
  std::vector<int32_t> stack;                       // for the whole stack
  int next = 0;                                     // the instruction it goes on with
  int at = 0;                                       // the call at which it waits for the frame above it
};

struct Segment {
  guards::Holdings holdings;  // of the guards, the book and the runner
  SegmentKind kind = SegmentKind::Eager;
  std::optional<CallShape> shape;  // of a segment that starts a call; others are guarded on the frame's locals
  guards::Ambient ambient;
  std::unique_ptr<guards::GuardProgram> guards;
  std::vector<guards::Strangers> strangers;  // classes that it takes for no subclasses of each other
  std::unique_ptr<Runner> runner;            // null: the graph is empty
  RecipeBook book;
  int32_t result = -1;              // the recipe of Return
  std::vector<FrameEnd> frames;     // of a Break: those that have not ended, the outermost first
  size_t old_frames = 0;            // so many of them were there before
  std::optional<int32_t> handled;   // the recipe of the exception that is being handled, where it changed
  std::optional<TorchModes> modes;  // where the segment leaves torch in another state
  int end = 0;                      // the instruction that runs eagerly, in the innermost frame
  std::optional<Break> broken;      // why it does
  Rerun rerun;                      // after an error of its graph
  mutable std::string raised;       // the last such error, in words
  mutable bool warned_of_raised = false;
  std::string graph_text;
  mutable bool served_again = false;  // a call after the one that it was compiled for
  // For explain(): where it starts, which one it was, and how long its capture took.
  std::string function, file;
  int line = 0;
  uint64_t number = 0;
  double seconds = 0;
  Story story;

  // Checks the guards over the call's arguments, or the frame's locals and stack. `slots` are filled on success.
  bool matches(PyObject* const* values, PyObject* function, guards::Slots& slots) const;
  int traverse(visitproc visit, void* arg) const;
  // Where it starts; of a call that starts in torch, as a module's does, the first line of the user's.
  python::UserLine user_line() const;
};

// Where a segment starts, and what the frame holds there.
struct SegmentStart {
  PyThreadState* state;
  LiveFrames& frames;
  const CallShape* shape = nullptr;      // at the start of a call
  PyObject* const* arguments = nullptr;  // of that call
  // Ways to tensors and numbers that change from call to call: inputs of the graph wherever they lie.
  const std::vector<guards::SourcePath>* moving = nullptr;

  FsFrame* frame() const { return frames.top().frame; }
};

// Captures from where the frames stand. Always gives a segment. They and all of the program's state are as they
// were. Throws the Python error of an interrupt only. `whole`: a break ends the attempt, and the segment is Eager.
std::shared_ptr<Segment> capture_segment(const SegmentStart& start, const BackendChoice& backend, bool whole);

// Warnings that come once come again.
void forget_warnings();

// For tests: ends every segment after so many instructions; 0: not.
void force_breaks(long instructions);

// What a frame that a piece has entered holds.
struct MadeFrame {
  PyRef function;
  std::vector<PyRef> locals, stack;
  int next, at;
};

// Runs the graph, makes the values, applies the writes. Unfit: the inputs do not fit after all, and nothing has run.
// Raised: the graph has raised, which left nothing behind: the code itself raises the same where it belongs, handlers
// and all. Mismatch: data breaks what the graph takes for granted, and nothing has changed. A Return's value is put
// into `result`; a Break's values go into the frames, and those of new ones into `made`. `frames` and `made` may be
// null where the segment is a Return.
enum class RunEnd : uint8_t { Done, Unfit, Raised, Mismatch };
// Why the code runs as it is after a run that was not Done.
BreakReason reason_of(RunEnd end);
RunEnd run_segment(const Segment& segment, PyObject* const* slots, PyThreadState* state, LiveFrames* frames,
                   PyRef& result, std::vector<MadeFrame>* made);

}  // namespace firesteel::capture
