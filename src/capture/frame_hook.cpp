// Arming and disarming of the frame hook. All of its state is guarded by the GIL or belongs to one thread.
#include "capture/frame_hook.h"

#include <utility>

#include "aot/shapes.h"
#include "capture/frame_interpreter.h"

namespace firesteel::capture {
namespace {

struct Armed {
  PyObject* function;
  const FrameTaker* taker;
  bool taken = false;
};
thread_local Armed* t_armed = nullptr;
thread_local Capture* t_capture = nullptr;

// The hook is the interpreter's, not the thread's: it stays while any thread waits for its frame.
size_t g_waiting = 0;
_PyFrameEvalFunction g_other = nullptr;  // what evaluated frames before us

PyObject* hook(PyThreadState* state, FsFrame* frame, int throwing);

void arm(PyThreadState* state) {
  _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(state->interp);
  if (now != &hook) {
    g_other = now;
    _PyInterpreterState_SetEvalFrameFunc(state->interp, &hook);
  }
  ++g_waiting;
}

void disarm(PyThreadState* state) {
  if (--g_waiting > 0) return;
  // Some other tool may have put itself above us; it calls us as its predecessor, and we pass on.
  if (_PyInterpreterState_GetEvalFrameFunc(state->interp) == &hook)
    _PyInterpreterState_SetEvalFrameFunc(state->interp, g_other);
}

PyObject* hook(PyThreadState* state, FsFrame* frame, int throwing) {
  // CPython counts as tracing while it runs audit hooks: they are no business of the captured code.
  Capture* capture = state->tracing ? nullptr : current_capture();
  if (capture) return interpret_inlined(*capture, state, frame, throwing);
  Armed* armed = t_armed;
  if (!armed || throwing || fs_frame_function(frame) != armed->function) {
    _PyFrameEvalFunction next = g_other && g_other != &hook ? g_other : &_PyEval_EvalFrameDefault;
    return next(state, frame, throwing);
  }
  t_armed = nullptr;
  armed->taken = true;
  disarm(state);
  return (*armed->taker)(state, frame);
}

}  // namespace

Capture* current_capture() { return t_capture && !t_capture->suspended ? t_capture : nullptr; }

void step_aside_for_shapes() {
  set_step_aside({[]() -> void* {
                    if (t_capture) ++t_capture->suspended;
                    return t_capture;
                  },
                  [](void* capture) {
                    if (capture) --static_cast<Capture*>(capture)->suspended;
                  }});
}

CaptureScope::CaptureScope(Capture& capture) : outer_(std::exchange(t_capture, &capture)) { arm(PyThreadState_Get()); }

CaptureScope::~CaptureScope() {
  t_capture = outer_;
  disarm(PyThreadState_Get());
}

PyObject* call_hooked(PyObject* function, PyObject* const* args, size_t count, PyObject* keywords,
                      const FrameTaker& taker, bool& taken) {
  PyThreadState* state = PyThreadState_Get();
  Armed armed{function, &taker};
  Armed* outer = t_armed;
  t_armed = &armed;
  arm(state);
  PyObject* result = PyObject_Vectorcall(function, args, count, keywords);
  if (!armed.taken) disarm(state);
  t_armed = outer;
  taken = armed.taken;
  return result;
}

PyObject* run_frame(PyThreadState* state, FsFrame* frame, int throwing) {
  _PyFrameEvalFunction next = g_other && g_other != &hook ? g_other : &_PyEval_EvalFrameDefault;
  return next(state, frame, throwing);
}

}  // namespace firesteel::capture
