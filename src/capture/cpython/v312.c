/* Frames of CPython 3.12. Unlike 3.11's they are cleared by whoever runs them, and no function that does so is
 * exported: a frame that ran elsewhere is ended by CPython's own interpreter, for which one last instruction is left to
 * run. */
#define Py_BUILD_CORE 1
#include "capture/cpython/frame_object_shim.h"
#include "capture/cpython/frame_shim.h"
#include "capture/cpython/generator_shim.h"

#include <opcode.h>

#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_long.h"
#include "internal/pycore_object.h"

_Static_assert(PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000, "this file is for CPython 3.12");
_Static_assert(sizeof(_PyCFrame) <= sizeof(FsLink), "FsLink is too small");

int fs_can_capture(void) { return 1; }

PyCodeObject* fs_frame_code(FsFrame* frame) { return frame->f_code; }
PyObject* fs_frame_function(FsFrame* frame) { return frame->f_funcobj; }
PyObject* fs_frame_globals(FsFrame* frame) { return frame->f_globals; }
PyObject* fs_frame_builtins(FsFrame* frame) { return frame->f_builtins; }
PyObject** fs_frame_locals(FsFrame* frame) { return frame->localsplus; }

/* sys.settrace and sys.setprofile are tools of sys.monitoring too, but count for their own thread only. */
static int has_tools(const uint8_t* tools, int events) {
  const unsigned of_threads = 1u << PY_MONITORING_SYS_TRACE_ID | 1u << PY_MONITORING_SYS_PROFILE_ID;
  for (int i = 0; i < events; ++i) {
    if (tools[i] & ~of_threads) return 1;
  }
  return 0;
}

int fs_is_monitored(PyThreadState* state) {
  return state->c_tracefunc || state->c_profilefunc ||
         has_tools(state->interp->monitors.tools, _PY_MONITORING_UNGROUPED_EVENTS);
}

static int is_code_monitored(PyCodeObject* code) {
  return code->_co_monitoring && has_tools(code->_co_monitoring->local_monitors.tools, _PY_MONITORING_LOCAL_EVENTS);
}

int fs_frame_is_fresh(PyThreadState* state, FsFrame* frame) {
  const int special = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  PyCodeObject* code = frame->f_code;
  return frame->owner == FRAME_OWNED_BY_THREAD && !(code->co_flags & special) && (code->co_flags & CO_OPTIMIZED) &&
         frame->prev_instr == _PyCode_CODE(code) - 1 && frame->stacktop == code->co_nlocalsplus &&
         !fs_is_monitored(state) && !is_code_monitored(code);
}

/* Calls of Python functions and calls of C functions are counted apart: ours are both. */
int fs_frame_link(PyThreadState* state, FsFrame* frame, FsLink* link) {
  if (state->py_recursion_remaining <= 0 && !state->recursion_headroom) {
    ++state->recursion_headroom;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
    --state->recursion_headroom;
    return -1;
  }
  if (Py_EnterRecursiveCall("")) return -1;
  --state->py_recursion_remaining;
  _PyCFrame* own = (_PyCFrame*)link;
  own->previous = state->cframe;
  own->current_frame = frame;
  frame->previous = state->cframe->current_frame;
  state->cframe = own;
  return 0;
}

void fs_frame_unlink(PyThreadState* state, FsFrame* frame, FsLink* link) {
  state->cframe = ((_PyCFrame*)link)->previous;
  frame->previous = NULL;
  ++state->py_recursion_remaining;
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

/* A generator takes its exceptions off the thread's stack of them itself. */
void fs_generator_suspend(PyObject* object) {
  PyGenObject* generator = (PyGenObject*)object;
  generator->gi_frame_state = FRAME_SUSPENDED;
  PyThreadState_Get()->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = NULL;
}
int fs_generator_is_suspended(PyObject* generator) {
  return ((PyGenObject*)generator)->gi_frame_state == FRAME_SUSPENDED;
}
FsFrame* fs_new_generator_frame(PyObject* generator) {
  PyGenObject* made = (PyGenObject*)generator;
  return made->gi_frame_state == FRAME_CREATED ? (FsFrame*)made->gi_iframe : NULL;
}

/* A frame without room for a value is one of straight code that returns a constant: CPython does so again. */
static _Py_CODEUNIT* find_return_const(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < Py_SIZE(code); ++i) {
    _Py_CODEUNIT* at = _PyCode_CODE(code) + i;
    if (at->op.code == RETURN_CONST || at->op.code == INSTRUMENTED_RETURN_CONST) return at;
  }
  return NULL;
}

static PyObject* finish_returned(PyThreadState* state, FsFrame* frame, PyObject* value) {
  static _Py_CODEUNIT last[2] = {{.op = {NOP, 0}}, {.op = {RETURN_VALUE, 0}}};
  frame->prev_instr = last;
  if (frame->f_code->co_stacksize == 0) {
    Py_DECREF(value);
    frame->prev_instr = find_return_const(frame->f_code) - 1;
  } else {
    frame->localsplus[frame->stacktop++] = value;
  }
  return _PyEval_EvalFrameDefault(state, frame, 0);
}

/* Raised before the first instruction, where no handler is; the traceback stays as it was. */
static PyObject* finish_raised(PyThreadState* state, FsFrame* frame) {
  PyObject* error = PyErr_GetRaisedException();
  PyObject* traceback = PyException_GetTraceback(error);
  PyErr_SetRaisedException(Py_NewRef(error));
  frame->prev_instr = _PyCode_CODE(frame->f_code) - 1;
  PyObject* result = _PyEval_EvalFrameDefault(state, frame, 1);
  PyObject* raised = PyErr_GetRaisedException();
  if (raised == error) PyException_SetTraceback(error, traceback ? traceback : Py_None);
  PyErr_SetRaisedException(raised);
  Py_XDECREF(traceback);
  Py_DECREF(error);
  return result;
}

static void clear_stack(FsFrame* frame) {
  PyObject* error = PyErr_GetRaisedException();
  while (frame->stacktop > frame->f_code->co_nlocalsplus) {
    PyObject* value = frame->localsplus[--frame->stacktop];
    Py_XDECREF(value);
  }
  PyErr_SetRaisedException(error);
}

PyObject* fs_frame_finish(PyThreadState* state, FsFrame* frame, PyObject* value) {
  clear_stack(frame);
  /* A frame object that outlives the frame tells where the frame was. */
  const int last = fs_frame_next(frame) - 1;
  PyFrameObject* object = frame->frame_obj;
  if (object && Py_REFCNT(object) == 1) object = NULL;
  Py_XINCREF(object);
  PyObject* result = value ? finish_returned(state, frame, value) : finish_raised(state, frame);
  if (object) fs_frame_set_instruction(object->f_frame, last);
  if (object && !result) {
    PyObject* error = PyErr_GetRaisedException();
    Py_DECREF(object);
    PyErr_SetRaisedException(error);
  } else {
    Py_XDECREF(object);
  }
  return result;
}

int fs_wants_break(PyThreadState* state) { return *(volatile int*)&state->interp->ceval.eval_breaker; }
int fs_has_other_threads(PyThreadState* state) { return state->interp->threads.head != state || state->next != NULL; }

/* The dicts of builtin classes belong to the interpreter; they have no tp_dict. */
PyObject* fs_type_dict(PyTypeObject* type) {
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);
  return dict;
}

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
  const PyDictOrValues held = *_PyObject_DictOrValuesPointer(object);
  if (!_PyDictOrValues_IsValues(held)) {
    PyObject* dict = _PyDictOrValues_GetDict(held);
    return dict && PyDict_GET_SIZE(dict) != 0;
  }
  /* How many of the values are in use stands before the first. */
  const PyDictValues* values = _PyDictOrValues_GetValues(held);
  return values && ((const uint8_t*)values)[-2] != 0;
}

PyObject* fs_view_dict(PyObject* view) {
  if (!PyDictViewSet_Check(view) && !PyDictValues_Check(view)) return NULL;
  return (PyObject*)((_PyDictViewObject*)view)->dv_dict;
}

PyObject* fs_private_int(PyObject* number) {
  PyLongObject* from = (PyLongObject*)number;
  const Py_ssize_t digits = _PyLong_DigitCount(from);
  PyLongObject* made = _PyLong_New(digits ? digits : 1);
  if (!made) return NULL;
  made->long_value.lv_tag = from->long_value.lv_tag;
  made->long_value.ob_digit[0] = 0;
  for (Py_ssize_t i = 0; i < digits; ++i) made->long_value.ob_digit[i] = from->long_value.ob_digit[i];
  return (PyObject*)made;
}
