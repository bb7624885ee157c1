// The functions that programs register for the shapes of their operators' results, where these follow from data.
#pragma once

namespace firesteel::python {

void ask_python_for_shapes();

}  // namespace firesteel::python
