// What an opaque function may read or change besides its tensors: guarded before it runs, compared afterwards.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/capture.h"

namespace firesteel::capture {

// Guards all that a function can read of a value it is given: modules with their parameters, objects of registered
// classes, constants.
void watch_opaque_input(Capture& capture, PyObject* value);
// Ends the call with an error where a value holds more than tensors, constants and containers of these.
void refuse_objects(Capture& capture, PyObject* value, const std::string& name);

// `traced reads `weight`, a tensor [3, 4] that requires a gradient`, for a warning.
std::string describe_captured(PyObject* function, const std::string& name, const at::Tensor& tensor);

// Python state around one call of an opaque function: its globals, its closure, and modules among its arguments.
class OpaqueState {
 public:
  OpaqueState(PyObject* function, PyObject* args, PyObject* kwargs);
  // What the captured code itself has written to it, and a function that runs with the graph would not see: writes come
  // after the graph. Empty where there is nothing.
  std::string pending(const Journal& journal) const;
  // Undoes what was changed; says what it was: `sets the global `counter``. Empty where nothing was.
  std::string put_back();

 private:
  struct Watched {
    PyRef container;  // a dict or a cell
    PyRef before;     // a copy of the dict; what the cell held
    std::string what;
  };
  void add_dict(PyObject* dict, const std::string& what);
  void add_modules(PyObject* value, int depth);
  void add_module(PyObject* module, int depth);

  std::vector<Watched> watched_;
};

// A traced tensor that is still alive after its capture has ended: where it is kept, in words. Empty: there is none.
std::string find_leaked_tensor();

}  // namespace firesteel::capture
