/* What capture needs of CPython's own frames: one C file a CPython version, as its internal headers are no C++. */
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _PyInterpreterFrame FsFrame;

/* Room for what CPython keeps on the C stack for a running frame. */
typedef struct {
  void* room[8];
} FsLink;

/* 0 where this CPython's frames cannot be captured: functions then run eagerly. */
int fs_can_capture(void);

PyCodeObject* fs_frame_code(FsFrame* frame);
PyObject* fs_frame_function(FsFrame* frame);
PyObject* fs_frame_globals(FsFrame* frame);
PyObject* fs_frame_builtins(FsFrame* frame);
/* co_nlocalsplus places, all set up by the call, none by the code. */
PyObject** fs_frame_locals(FsFrame* frame);
/* A new frame of a plain function: no generator, not resumed, not traced, profiled or monitored. */
int fs_frame_is_fresh(PyThreadState* state, FsFrame* frame);

/* Puts the frame on the thread's stack of frames, so that tracebacks and line numbers see it, and takes it off again.
 */
void fs_frame_link(PyThreadState* state, FsFrame* frame, FsLink* link);
void fs_frame_unlink(PyThreadState* state, FsFrame* frame, FsLink* link);
/* The instruction (in code units) that runs now. */
void fs_frame_set_instruction(FsFrame* frame, int index);
/* Back to where the call had left it. */
void fs_frame_rewind(FsFrame* frame);

/* Ends an unlinked frame that ran elsewhere: returns what its caller must get, value or null. Steals `value`. */
PyObject* fs_frame_finish(PyThreadState* state, FsFrame* frame, PyObject* value);

/* Nonzero where signals, pending calls or other threads want to be served. */
int fs_wants_break(PyThreadState* state);

/* An object's own dict, borrowed, or null; never an error. */
PyObject* fs_instance_dict(PyObject* object);

#ifdef __cplusplus
}
#endif
