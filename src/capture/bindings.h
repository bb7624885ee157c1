// What Python sees of capture.
#pragma once

#include <nanobind/nanobind.h>

namespace firesteel::capture {

void bind_capture(nanobind::module_& module);

}  // namespace firesteel::capture
