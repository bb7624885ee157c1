// CPython 3.12 is not captured yet: no instruction is known.
#pragma once

#define FIRESTEEL_OPCODES(X)
