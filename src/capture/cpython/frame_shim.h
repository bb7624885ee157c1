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
/* co_nlocalsplus places, then the stack. */
PyObject** fs_frame_locals(FsFrame* frame);
/* A new frame of a plain function: no generator, not resumed, not traced, profiled or monitored. */
int fs_frame_is_fresh(PyThreadState* state, FsFrame* frame);
/* The thread is traced, profiled or monitored. */
int fs_is_monitored(PyThreadState* state);

/* Puts the frame on the thread's stack of frames, so that tracebacks and line numbers see it, and takes it off again.
 * -1 with a RecursionError where that stack is too deep. */
int fs_frame_link(PyThreadState* state, FsFrame* frame, FsLink* link);
void fs_frame_unlink(PyThreadState* state, FsFrame* frame, FsLink* link);
/* A frame further down that stack is to be its top for a while: gives the one that was. */
FsFrame* fs_frame_show(PyThreadState* state, FsFrame* frame);
/* The instruction (in code units) that runs now; the next one to run of a frame that does not. */
void fs_frame_set_instruction(FsFrame* frame, int index);
int fs_frame_next(FsFrame* frame);
void fs_frame_set_next(FsFrame* frame, int index);
/* How many values are on the frame's own stack. */
int fs_frame_depth(FsFrame* frame);
void fs_frame_set_depth(FsFrame* frame, int depth);

/* The generator a frame belongs to, borrowed, or null; and the mark that it waits after a yield. */
PyObject* fs_frame_generator(FsFrame* frame);
void fs_generator_suspend(PyObject* generator);
/* A generator that was started and has not ended. */
int fs_generator_is_suspended(PyObject* generator);

/* Ends an unlinked frame that ran elsewhere: returns what its caller must get, value or null. Steals `value`. */
PyObject* fs_frame_finish(PyThreadState* state, FsFrame* frame, PyObject* value);

/* Nonzero where signals, pending calls or other threads want to be served. */
int fs_wants_break(PyThreadState* state);
/* Nonzero where the interpreter has more than this one thread. */
int fs_has_other_threads(PyThreadState* state);

/* What a class itself defines, borrowed. */
PyObject* fs_type_dict(PyTypeObject* type);
/* An object's own dict, borrowed, or null; never an error. */
PyObject* fs_instance_dict(PyObject* object);
/* Nonzero where there is something in it; unlike the above it makes no dict. */
int fs_has_attributes(PyObject* object);
/* The dict that a view of keys, values or items looks at, borrowed; null for other objects. */
PyObject* fs_view_dict(PyObject* view);
/* A new int of the same value that is no cached one. */
PyObject* fs_private_int(PyObject* number);

#ifdef __cplusplus
}
#endif
