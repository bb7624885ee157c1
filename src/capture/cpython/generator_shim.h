/* What capture needs of generators that have not begun. */
#pragma once

#include "capture/cpython/frame_shim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The frame of a generator that was made and not started, borrowed; null for all others. */
FsFrame* fs_new_generator_frame(PyObject* generator);

#ifdef __cplusplus
}
#endif
