// Firesteel for C++: trace and compile functions over libtorch. See docs/cpp.md.
#pragma once

#include "firesteel/compile.h"
#include "firesteel/controls.h"
#include "firesteel/error.h"
#include "firesteel/trace.h"
