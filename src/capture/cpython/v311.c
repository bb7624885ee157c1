/* Frames of CPython 3.11. */
#define Py_BUILD_CORE 1
#include "capture/cpython/frame_object_shim.h"
#include "capture/cpython/frame_shim.h"
#include "capture/cpython/generator_shim.h"

#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_long.h"
#include "internal/pycore_object.h"

_Static_assert(PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000, "this file is for CPython 3.11");
_Static_assert(sizeof(_PyCFrame) <= sizeof(FsLink), "FsLink is too small");

int fs_can_capture(void) { return 1; }

PyCodeObject* fs_frame_code(FsFrame* frame) { return frame->f_code; }
PyObject* fs_frame_function(FsFrame* frame) { return (PyObject*)frame->f_func; }
PyObject* fs_frame_globals(FsFrame* frame) { return frame->f_globals; }
PyObject* fs_frame_builtins(FsFrame* frame) { return frame->f_builtins; }
PyObject** fs_frame_locals(FsFrame* frame) { return frame->localsplus; }

int fs_is_monitored(PyThreadState* state) { return state->cframe->use_tracing != 0; }

int fs_frame_is_fresh(PyThreadState* state, FsFrame* frame) {
  const int special = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  return frame->owner == FRAME_OWNED_BY_THREAD && !(frame->f_code->co_flags & special) &&
         (frame->f_code->co_flags & CO_OPTIMIZED) && frame->prev_instr == _PyCode_CODE(frame->f_code) - 1 &&
         frame->stacktop == frame->f_code->co_nlocalsplus && !fs_is_monitored(state);
}

int fs_frame_link(PyThreadState* state, FsFrame* frame, FsLink* link) {
  if (Py_EnterRecursiveCall(" while capturing a function")) return -1;
  _PyCFrame* own = (_PyCFrame*)link;
  own->use_tracing = state->cframe->use_tracing;
  own->previous = state->cframe;
  own->current_frame = frame;
  frame->previous = state->cframe->current_frame;
  frame->is_entry = true;
  state->cframe = own;
  return 0;
}

void fs_frame_unlink(PyThreadState* state, FsFrame* frame, FsLink* link) {
  _PyCFrame* own = (_PyCFrame*)link;
  state->cframe = own->previous;
  /* Tracing may have been switched on while the frame ran. */
  state->cframe->use_tracing = own->use_tracing;
  Py_LeaveRecursiveCall();
}

FsFrame* fs_frame_show(PyThreadState* state, FsFrame* frame) {
  FsFrame* before = state->cframe->current_frame;
  state->cframe->current_frame = frame;
  return before;
}

void fs_frame_set_instruction(FsFrame* frame, int index) { frame->prev_instr = _PyCode_CODE(frame->f_code) + index; }
void fs_frame_object_stands_at(PyFrameObject* object, int index) {
  FsFrame* frame = object->f_frame;
  const PyCodeObject* code = frame->f_code;
  fs_frame_set_instruction(frame, index);
  for (int i = code->co_nlocalsplus - code->co_nfreevars; i < code->co_nlocalsplus; ++i) {
    if (!frame->localsplus[i]) frame->localsplus[i] = PyCell_New(NULL);
  }
}
int fs_frame_next(FsFrame* frame) { return (int)(frame->prev_instr - _PyCode_CODE(frame->f_code)) + 1; }
void fs_frame_set_next(FsFrame* frame, int index) { frame->prev_instr = _PyCode_CODE(frame->f_code) + index - 1; }
int fs_frame_depth(FsFrame* frame) { return frame->stacktop - frame->f_code->co_nlocalsplus; }
void fs_frame_set_depth(FsFrame* frame, int depth) { frame->stacktop = frame->f_code->co_nlocalsplus + depth; }

PyObject* fs_frame_generator(FsFrame* frame) {
  return frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject*)_PyFrame_GetGenerator(frame) : NULL;
}
void fs_generator_suspend(PyObject* generator) { ((PyGenObject*)generator)->gi_frame_state = FRAME_SUSPENDED; }
int fs_generator_is_suspended(PyObject* generator) {
  return ((PyGenObject*)generator)->gi_frame_state == FRAME_SUSPENDED;
}
FsFrame* fs_new_generator_frame(PyObject* generator) {
  PyGenObject* made = (PyGenObject*)generator;
  return made->gi_frame_state == FRAME_CREATED ? (FsFrame*)made->gi_iframe : NULL;
}

/* The caller clears the frame; its stack was never used. */
PyObject* fs_frame_finish(PyThreadState* state, FsFrame* frame, PyObject* value) { return value; }

int fs_wants_break(PyThreadState* state) { return *(volatile int*)&state->interp->ceval.eval_breaker; }
int fs_has_other_threads(PyThreadState* state) { return state->interp->threads.head != state || state->next != NULL; }

PyObject* fs_type_dict(PyTypeObject* type) { return type->tp_dict; }

PyObject* fs_instance_dict(PyObject* object) {
  PyObject** place = _PyObject_GetDictPtr(object);
  if (place && !*place && PyErr_Occurred()) PyErr_Clear();
  return place ? *place : NULL;
}

int fs_has_attributes(PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
    PyObject* dict = fs_instance_dict(object);
    return dict && PyDict_GET_SIZE(dict) != 0;
  }
  PyObject* dict = *_PyObject_ManagedDictPointer(object);
  if (dict) return PyDict_GET_SIZE(dict) != 0;
  /* How many of the values are in use stands before the first. */
  const PyDictValues* values = *_PyObject_ValuesPointer(object);
  return values && ((const uint8_t*)values)[-2] != 0;
}

PyObject* fs_view_dict(PyObject* view) {
  if (!PyDictViewSet_Check(view) && !PyDictValues_Check(view)) return NULL;
  return (PyObject*)((_PyDictViewObject*)view)->dv_dict;
}

PyObject* fs_private_int(PyObject* number) {
  PyLongObject* from = (PyLongObject*)number;
  const Py_ssize_t digits = Py_ABS(Py_SIZE(from));
  PyLongObject* made = _PyLong_New(digits ? digits : 1);
  if (!made) return NULL;
  made->ob_base.ob_size = Py_SIZE(from);
  made->ob_digit[0] = 0;
  for (Py_ssize_t i = 0; i < digits; ++i) made->ob_digit[i] = from->ob_digit[i];
  return (PyObject*)made;
}
