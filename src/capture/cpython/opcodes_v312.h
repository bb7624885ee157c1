// CPython 3.12 is not captured yet: no instruction is known. The handlers are those of 3.11.
#pragma once

#include "capture/cpython/opcodes_v311.h"

#undef FIRESTEEL_OPCODES
#define FIRESTEEL_OPCODES(X)
