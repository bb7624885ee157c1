// One try at capturing a piece: the frame's values bound, the interpreter inside a trace, recipes for what it leaves.
#pragma once

#include "capture/backend_inputs.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/frame_interpreter.h"
#include "capture/result_kinds.h"
#include "capture/segment.h"

namespace firesteel::capture {

class KeepThreadState;
class RecipeMaker;

class Attempt {
 public:
  Attempt(const SegmentStart& start, const BackendChoice& backend, long stop_at, bool locate_backward);

  // The call whose backward failed, or an earlier one of the same function: it comes later in the backward. Null where
  // that is not what failed, or not known.
  const Capture::CallMark* failed_call() const;

  // Throws a Break, or the Python error of a trace that failed.
  Trace run();

  const SegmentStart& start_;
  std::optional<BackendPaths> backend_paths;  // where the backend is a function

 private:
  void bind_call();
  void collect(const Source* source);
  bool opens_number(PyObject* value) const;
  void collect_moving(const guards::SourcePath& path);
  // Which sizes of the arguments the graph leaves open.
  void open_sizes();
  void open_as_marked(PyObject* tensor, const Source* source);
  void open_as_specified(PyObject* tensor, const Source* source);

  // In the middle of a function every local and every value on the stack is an argument, in all frames there are.
  void bind_frames();
  const Source* frame_source(size_t level, int index);

  FunctionResult interpret(const std::vector<at::Tensor>& stand_ins);
  // The frame the capture starts with, or one that waited for the frame above it.
  std::unique_ptr<FrameInterpreter> interpreter_for(size_t level);
  // Follows the frames from the innermost on, to the outermost's end or where the piece ends.
  Ending run_frames(const KeepThreadState& kept);
  // One that was there before leaves a frame for real: its traceback grows by that.
  void refuse_error_from_outside(const KeepThreadState& kept);

  // `*args` and `**kwargs` are made anew at every call; what they hold are arguments. The frame keeps its own dict, for
  // the next attempt or a run as it is: what is made during a capture may be changed without a trace.
  PyRef collect_rest(PyObject* container, const Parameter& parameter);

  // Recipes for all that the segment leaves behind. The tensors they need are the trace's results.
  FunctionResult describe(Ending ending, const KeepThreadState& kept);
  void describe_frames(RecipeMaker& maker);

  // A leaf in the memory of another tensor, or a view of one, that outlives the graph: ends before it became one.
  void refuse_borrowed_leaf(PyObject* result);
  // The result goes back to a leaf that was made inside. A backend that is a function may trace the graph, and then
  // gives plain values: where a break is allowed, the piece ends before the leaf is made.
  bool has_inner_leaf(PyObject* result);

  // A local that still holds what the frame holds needs no recipe.
  bool is_kept(size_t level, size_t index, PyObject* value) const;

  const BackendChoice& backend_;
  const Source* function_source_ = nullptr;
  std::unique_ptr<FrameInterpreter> interpreter_;  // of the frame at `level_`
  size_t level_ = 0;
  std::vector<Parameter> parameters_;
  PyRef result_;

 public:
  Capture capture;
  std::shared_ptr<Segment> segment;
  FailedBackward backward;
  std::vector<ResultKind> result_kinds;
  bool is_described = false;  // the code was followed to its end, and there are recipes for all it leaves
  bool gives_input = false;   // all it does is to give a tensor back that it was given
  long no_recipe_birth = -2;  // -2: nothing was missing; -1: it is not known when it was made
};

}  // namespace firesteel::capture
