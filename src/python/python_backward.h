// Backward functions written in Python that read data: traced where that is possible, else called as they are.
#pragma once

namespace torch::autograd {
struct Node;
}

namespace firesteel::python {

// For a node that is about to run in a traced backward: where it reads data, one opaque call is recorded instead, which
// gives the function at run time what it was given here. For those whose context holds tensors and constants only.
void watch_backward(torch::autograd::Node& node);

}  // namespace firesteel::python
