// Calls that a capture meets, and what it keeps of those that become nodes.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "python/py_ref.h"
#include "python/pytree.h"

namespace firesteel::capture {

using python::PyRef;

// The arguments of a call inside: positional ones, then the values of `keywords` (a tuple, or empty).
struct CallArgs {
  std::vector<PyRef> values;
  PyRef keywords;

  size_t keyword_count() const { return keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords.get())) : 0; }
  size_t positional() const { return values.size() - keyword_count(); }
  PyObject* operator[](size_t i) const { return values[i].get(); }
  PyRef tuple() const;                   // the positional ones
  PyRef dict() const;                    // the keywords, empty where there are none
  PyRef call(PyObject* callable) const;  // for real
};

// What a torch-level node calls, and how its arguments nest around the tensors.
struct TorchCall {
  PyRef callable;
  Tree args, kwargs;
  // For each output the way into the result: by index, and ~index into a dict's values.
  std::vector<std::vector<Py_ssize_t>> results;
  std::vector<SourceRef> stack;  // the lines that led here, the innermost first, where the capture keeps them
  PyRef modules;  // whose forward() it is in, outermost first: (id, path, weak reference to the class) each; or null
};

struct RecordOptions {
  bool always = false;                      // also where no tensor goes in or comes out
  bool opaque = false;                      // its Python is not looked into
  std::optional<python::Flat> flat_result;  // of an opaque call
};

// A call of a cached function that ran for real.
struct CachedCall {
  PyRef callable;
  CallArgs args;
  PyRef result;
};

}  // namespace firesteel::capture
