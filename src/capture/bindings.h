// What Python sees of capture.
#pragma once

#include <nanobind/nanobind.h>

#include "capture/runner.h"

namespace firesteel::capture {

// Sizes among the operands of tensors are found from now on (sizes.cpp).
void watch_symbols();
void bind_capture(nanobind::module_& module);
// The controls (control_bindings.cpp).
void bind_controls(nanobind::module_& module);

// A name of the table of backends, or what gives a builder for each graph. Throws a ValueError.
BackendChoice backend_from(nanobind::handle backend);

}  // namespace firesteel::capture
