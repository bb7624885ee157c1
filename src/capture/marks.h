// What a program has said about callables: kept by identity, looked up at each call inside a capture.
#pragma once

#include <cstdint>
#include <string>

#include "python/py_ref.h"

namespace firesteel::capture {

using python::PyRef;

// One table: name, and what a capture does where it meets such a callable.
#define FIRESTEEL_MARKS(X)                                                             \
  X(None, "what it would do anyway")                                                   \
  X(Allowed, "puts the call into the graph as it is")                                  \
  X(Disallowed, "breaks, and runs it eagerly")                                         \
  X(Disabled, "the same for a class: making its objects, calling them")                \
  X(Forbidden, "ends with an error")                                                   \
  X(Constant, "calls it now, and takes the result for a constant")                     \
  X(Leaf, "puts the call into the graph as it is, and traces another function for it") \
  X(Late, "calls it when the graph has run")                                           \
  X(Substituted, "follows another function in its place")

enum class Mark : uint8_t {
#define X(name, what) name,
  FIRESTEEL_MARKS(X)
#undef X
};

struct MarkRow {
  Mark mark = Mark::None;
  PyRef object;        // Substituted: the function to follow; Leaf: the one to trace
  std::string reason;  // Disabled
};

// Replaces what was said before; Mark::None forgets it. Code compiled so far is captured again.
void set_mark(PyObject* callable, MarkRow row);
// What holds for a callable; PyTorch's own marks on functions count as well.
MarkRow mark_of(PyObject* callable);
// For an object whose class, or a base of it, was disabled.
MarkRow mark_of_class(PyTypeObject* type);

// Overloads of torch.ops that were disallowed, by name (`aten::add.Tensor`, or `aten::add` for all of them).
bool is_disallowed_operator(const std::string& name, const std::string& overload);
bool any_disallowed_operators();

}  // namespace firesteel::capture
