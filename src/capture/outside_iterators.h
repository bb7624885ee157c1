// Iterators of builtin classes that were made before the call: where they stand is guarded, and each step is told.
//
// A capture never moves the iterator itself. It steps a twin that stands where the iterator stood; when the graph has
// run, the iterator takes the same steps.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "capture/capture.h"

namespace firesteel::capture {

// The twins of one capture. While it lives it is that of its thread.
class OutsideIterators {
 public:
  explicit OutsideIterators(Capture& capture);
  ~OutsideIterators();
  OutsideIterators(const OutsideIterators&) = delete;
  OutsideIterators& operator=(const OutsideIterators&) = delete;

  // What to step in place of an iterator from outside. Empty where it must be left to Python: its class is not known,
  // or the function may be compiled in pieces, which do without one entry for each place that the iterator stands at.
  static PyRef twin_of(Capture& capture, PyObject* iterator);
  static bool is_twin(PyObject* object);
  // A list that an iterator from outside goes over must not change in the same capture.
  static bool goes_over(const Capture& capture, PyObject* list);

  // The steps that were taken, in their order: an iterator, and how many at a stretch.
  using Steps = std::vector<std::pair<PyRef, int64_t>>;
  static Steps steps(Capture& capture);

 private:
  PyRef make(PyObject* iterator);
  PyRef twin_at(PyObject* state, const Source* at, size_t index);

  Capture& capture_;
  OutsideIterators* outer_;
  std::vector<std::pair<PyRef, PyRef>> twins_;
  std::vector<PyObject*> lists_;
  std::shared_ptr<Steps> steps_ = std::make_shared<Steps>();
};

}  // namespace firesteel::capture
