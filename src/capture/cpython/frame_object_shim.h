/* Frame objects of CPython's that no code runs in. */
#pragma once

#include <Python.h>
#include <frameobject.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One that never runs is to look as if it had come to that instruction: CPython then looks at its cells. */
void fs_frame_object_stands_at(PyFrameObject* object, int index);

#ifdef __cplusplus
}
#endif
