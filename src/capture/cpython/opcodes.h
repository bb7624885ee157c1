// The table of known instructions for the CPython this is built for.
#pragma once

#include <Python.h>
#include <opcode.h>

#if PY_VERSION_HEX < 0x030c0000
#include "capture/cpython/opcodes_v311.h"
#else
#include "capture/cpython/opcodes_v312.h"
#endif
