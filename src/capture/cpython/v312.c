/* CPython 3.12: compiled functions run eagerly. Its interpreter clears a frame in the callee, which needs a way of its
 * own. */
#define Py_BUILD_CORE 1
#include "capture/cpython/frame_shim.h"

#include "internal/pycore_frame.h"

_Static_assert(PY_VERSION_HEX >= 0x030c0000, "this file is for CPython 3.12");

int fs_can_capture(void) { return 0; }

PyCodeObject* fs_frame_code(FsFrame* frame) { return frame->f_code; }
PyObject* fs_frame_function(FsFrame* frame) { return frame->f_funcobj; }
PyObject* fs_frame_globals(FsFrame* frame) { return frame->f_globals; }
PyObject* fs_frame_builtins(FsFrame* frame) { return frame->f_builtins; }
PyObject** fs_frame_locals(FsFrame* frame) { return frame->localsplus; }
int fs_frame_is_fresh(PyThreadState* state, FsFrame* frame) { return 0; }
void fs_frame_link(PyThreadState* state, FsFrame* frame, FsLink* link) {}
void fs_frame_unlink(PyThreadState* state, FsFrame* frame, FsLink* link) {}
void fs_frame_set_instruction(FsFrame* frame, int index) {}
void fs_frame_rewind(FsFrame* frame) {}
PyObject* fs_frame_finish(PyThreadState* state, FsFrame* frame, PyObject* value) { return value; }
int fs_wants_break(PyThreadState* state) { return 0; }
PyObject* fs_instance_dict(PyObject* object) {
  PyObject** place = _PyObject_GetDictPtr(object);
  return place ? *place : NULL;
}
