// Finds the functions behind deprecated ones of torch.
#include "capture/library_rules.h"

#include "capture/callables.h"

namespace firesteel::capture {

PyObject* under_deprecation(PyObject* function) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!dict || PyDict_GET_SIZE(dict) == 0 || !PyDict_GetItemString(dict, "__deprecated__")) return nullptr;
  PyObject* wrapped = PyDict_GetItemString(dict, "__wrapped__");
  if (!wrapped || !PyFunction_Check(wrapped)) return nullptr;
  return is_of_torch(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(wrapped))) ? wrapped : nullptr;
}

}  // namespace firesteel::capture
