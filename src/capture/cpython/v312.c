/* CPython 3.12: compiled functions run eagerly. Its interpreter clears a frame in the callee, which needs a way of its
 * own. */
#define Py_BUILD_CORE 1
#include "capture/cpython/frame_shim.h"

#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"

_Static_assert(PY_VERSION_HEX >= 0x030c0000, "this file is for CPython 3.12");

int fs_can_capture(void) { return 0; }

PyCodeObject* fs_frame_code(FsFrame* frame) { return frame->f_code; }
PyObject* fs_frame_function(FsFrame* frame) { return frame->f_funcobj; }
PyObject* fs_frame_globals(FsFrame* frame) { return frame->f_globals; }
PyObject* fs_frame_builtins(FsFrame* frame) { return frame->f_builtins; }
PyObject** fs_frame_locals(FsFrame* frame) { return frame->localsplus; }
int fs_is_monitored(PyThreadState* state) { return 1; }
int fs_frame_is_fresh(PyThreadState* state, FsFrame* frame) { return 0; }
void fs_frame_link(PyThreadState* state, FsFrame* frame, FsLink* link) {}
void fs_frame_unlink(PyThreadState* state, FsFrame* frame, FsLink* link) {}
void fs_frame_set_instruction(FsFrame* frame, int index) {}
int fs_frame_next(FsFrame* frame) { return 0; }
void fs_frame_set_next(FsFrame* frame, int index) {}
int fs_frame_depth(FsFrame* frame) { return 0; }
void fs_frame_set_depth(FsFrame* frame, int depth) {}
PyObject* fs_frame_generator(FsFrame* frame) { return NULL; }
void fs_generator_suspend(PyObject* generator) {}
int fs_generator_is_suspended(PyObject* generator) { return 0; }
PyObject* fs_frame_finish(PyThreadState* state, FsFrame* frame, PyObject* value) { return value; }
int fs_wants_break(PyThreadState* state) { return 0; }
int fs_has_other_threads(PyThreadState* state) { return 0; }
PyObject* fs_instance_dict(PyObject* object) {
  PyObject** place = _PyObject_GetDictPtr(object);
  return place ? *place : NULL;
}
PyObject* fs_view_dict(PyObject* view) {
  if (!PyDictViewSet_Check(view) && !PyDictValues_Check(view)) return NULL;
  return (PyObject*)((_PyDictViewObject*)view)->dv_dict;
}
PyObject* fs_private_int(PyObject* number) { return Py_NewRef(number); }
