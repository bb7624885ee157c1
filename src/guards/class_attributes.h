// What attributes of a class were found while capturing, and whether they are still those, and its bases. Watched by
// the class's version tag.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "guards/holdings.h"

namespace firesteel::guards {

// While capturing.
struct ClassAttributes {
  PyRef type;
  std::vector<std::pair<PyRef, PyRef>> found;  // name, value; an empty value: there was none
};

// In a compiled entry, which must not keep the class alive. Many values lead back to their class, and not all of them
// can be held weakly: a property, say, is known again by its functions.
class WatchedClass {
 public:
  WatchedClass(const ClassAttributes& attributes, Holdings& holdings);

  bool unchanged() const;
  PyTypeObject* type() const { return type_; }
  // The name of an attribute that differs; empty where none does.
  std::string changed_name() const;

 private:
  struct Found {
    PyObject* name;
    PyObject* value;  // an address; held only where `parts` is empty
    PyTypeObject* kind;
    std::vector<PyObject*> parts;  // what makes up a value that is not held
  };
  static std::vector<PyRef> parts_of(PyObject* value);
  bool is_same(const Found& found) const;

  std::vector<PyObject*> bases_now() const;

  PyTypeObject* type_;
  std::vector<PyObject*> bases_;  // all of them, in the order in which attributes are looked for
  std::vector<Found> found_;
  mutable unsigned int version_ = 0;
};

}  // namespace firesteel::guards
