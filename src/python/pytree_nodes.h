// The kinds of containers a pytree knows: how each is recognised, taken apart, built and named in a path.
#pragma once

#include <string>
#include <vector>

#include "graph/tree.h"
#include "python/py_ref.h"

namespace firesteel::python {

// A container taken apart. The context is what two containers must have in common to be of one structure, besides
// kind, class and number of children: a dict's keys, a deque's limit, what a registered flatten function gave.
struct Parts {
  std::vector<PyRef> children;
  PyRef context;
};

struct NodeKind {
  const char* name;
  TreeKind tree;
  // Null result with no Python error set: `take_apart` found the object broken and filled `problem`.
  bool (*take_apart)(PyObject* object, Parts& parts, std::string& problem);
  PyRef (*build)(PyObject* type, PyObject* context, const PyRef& children);  // children: a tuple
  std::string (*step)(PyObject* object, PyObject* context, size_t index);
};

// Null for what is no container.
const NodeKind* kind_of(PyObject* object);

// A tuple in the place of a torch.Size some of whose numbers are leaves, which torch.Size itself cannot hold; a
// torch.Size when it is built.
PyObject* open_size_type();

// What a Tree keeps of a container: enough to build it again and to compare another one with it.
struct NodeContext {
  const NodeKind* kind;
  PyRef type;
  PyRef context;  // may be empty
};

// `["a"]`, `[3]`: how a path names a dict's entry.
std::string key_step(PyObject* key);

}  // namespace firesteel::python
