// Nested Python values taken apart into tensors and a Tree, and put together again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/tree.h"
#include "python/py_ref.h"

namespace firesteel::python {

struct Flat {
  std::vector<PyRef> leaves;  // tensor objects, from left to right
  Tree tree;
};

// Flattens arguments; paths in errors start with `root` ("args", "kwargs"). Throws TraceError naming the type and the
// path of what cannot be an input, or what a registered flatten function raised.
Flat flatten_input(PyObject* object, const char* root);
// While one lives, tensors of classes with rules of their own are leaves like all others.
class TakesAllTensors {
 public:
  TakesAllTensors();
  ~TakesAllTensors();
  TakesAllTensors(const TakesAllTensors&) = delete;
  TakesAllTensors& operator=(const TakesAllTensors&) = delete;

 private:
  bool outer_;
};
// The same for what `function` returned: throws OutputTypeError and shows where the function returns.
Flat flatten_result(PyObject* object, PyObject* function);

// The nested value for `leaves`, taken from `next` onwards.
PyRef unflatten(const Tree& tree, const std::vector<PyRef>& leaves, size_t& next);

// The same nested value with every part that is no container replaced by what `map` gives for it; the object itself
// where all stay.
PyRef map_parts(PyObject* object, const std::function<PyRef(PyObject*)>& map);

// Takes `object` apart along a tree made earlier and appends its tensors to `leaves`. Throws InputMismatchError with
// the path, what was traced and what was given. `any_order` lets the outermost dict's keys come in any order, as
// keyword arguments may.
void flatten_like(const Tree& traced, PyObject* object, const char* root, bool any_order, std::vector<PyRef>& leaves);

// A name for each leaf, as a graph's text may use it: `x`, `cfg_mask`, from the names of the root's children.
void name_leaves(const Tree& tree, const std::string& prefix, std::vector<std::string>& names);

}  // namespace firesteel::python
