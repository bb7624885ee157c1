// What lies in modules of Python, and in the namespaces of torch.ops.
#include <string>

#include "capture/callables.h"
#include "capture/capture.h"
#include "python/errors.h"

namespace firesteel::capture {

using python::checked;

std::string module_name(PyObject* module) {
  const char* name = PyModule_GetName(module);
  if (!name) PyErr_Clear();
  return name ? name : "?";
}

const Source* module_variables(Capture& capture, PyObject* module) {
  PyObject* dict = PyModule_GetDict(module);
  const Source* source = capture.source_of(module);
  if (!source || is_module_namespace(dict)) return capture.sources.pinned(dict, module_name(module));
  return capture.sources.step(source, AccessKind::InstanceDict);
}

PyRef operator_member(Capture& capture, PyObject* owner, PyObject* name) {
  PyRef value;
  {
    Suspended suspended(capture);
    value = checked(PyObject_GetAttr(owner, name));
  }
  return capture.admit(value.get(), capture.sources.pinned(value.get(), std::string(python::text_of(name))));
}

}  // namespace firesteel::capture
