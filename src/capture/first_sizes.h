// What the sizes and numbers of a call were that ran eagerly, so that the compilation after it knows which of them
// change.
#pragma once

#include <variant>
#include <vector>

#include "guards/source.h"

namespace firesteel::capture {

class FirstSizes {
 public:
  // The values of a call's arguments, keywords' last.
  void note(PyObject* const* values, size_t count);
  bool empty() const { return seen_.empty(); }
  // The ways to what is another one now; forgets what was noted.
  std::vector<guards::SourcePath> take_changed(PyObject* const* values, size_t count);

 private:
  struct Seen {
    guards::SourcePath path;
    std::variant<std::vector<int64_t>, guards::PyRef> what;  // sizes of a tensor, or a number
  };
  static void look(PyObject* value, guards::SourcePath& path, std::vector<Seen>& seen);
  static std::vector<Seen> seen_in(PyObject* const* values, size_t count);

  std::vector<Seen> seen_;
};

}  // namespace firesteel::capture
