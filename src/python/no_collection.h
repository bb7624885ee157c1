// Keeps Python's collector off for a scope, where a finalizer must not run.
#pragma once

#include <Python.h>

namespace firesteel::python {

class NoCollection {
 public:
  NoCollection() : was_on_(PyGC_Disable() == 1) {}
  ~NoCollection() {
    if (was_on_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  bool was_on_;
};

}  // namespace firesteel::python
