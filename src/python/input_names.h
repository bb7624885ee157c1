// Names for a graph's inputs that a reader knows from the program: parameters of the function, weights of its modules.
#pragma once

#include "graph/graph.h"
#include "python/py_ref.h"

namespace firesteel::python {

// Names arguments after the function's parameters (`x`, `cfg_mask`), and captured tensors after the module or variable
// that leads to them (`fc1.weight`). Best effort: what cannot be named keeps an invented name.
void name_inputs(Graph& graph, PyObject* function, const Tree& args, const Tree& kwargs);

// What a function calls a tensor that it reaches by its closure or its globals; empty where that is not known.
std::string name_of_captured(PyObject* function, const at::Tensor& tensor);

// A function's own name, fit for a graph: `forward`, `MLP`, `lambda`.
std::string name_of(PyObject* function);

}  // namespace firesteel::python
