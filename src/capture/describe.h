// Pieces and recompiles as Python's dicts: for explain(), logs and reports.
#pragma once

#include <nanobind/nanobind.h>

#include "capture/region.h"

namespace firesteel::capture {

nanobind::dict describe(const Segment& segment);
nanobind::dict describe(const Recompile& note);

}  // namespace firesteel::capture
