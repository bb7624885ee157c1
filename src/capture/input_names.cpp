// Finds the names of forward()'s parameters, and puts them in the places of `args[0]` and `kwargs['mask']`.
#include "capture/input_names.h"

#include <cctype>

#include "capture/callables.h"
#include "python/errors.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

// `args_0_` and what follows.
std::string renamed(const std::string& name, const std::vector<std::string>& parameters) {
  constexpr std::string_view kArgs = "args_", kKeywords = "kwargs__";
  if (name.starts_with(kKeywords)) {
    std::string rest = name.substr(kKeywords.size());
    if (const size_t end = rest.find("__"); end != std::string::npos) return rest.erase(end, 2);
    return name;
  }
  if (!name.starts_with(kArgs)) return name;
  size_t end = kArgs.size(), place = 0;
  for (; end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])); ++end)
    place = place * 10 + static_cast<size_t>(name[end] - '0');
  if (end == kArgs.size() || end >= name.size() || name[end] != '_' || place + 1 >= parameters.size()) return name;
  return parameters[place + 1] + name.substr(end + 1);
}

}  // namespace

ForwardParameters parameters_of_forward(PyObject* module) {
  PyRef name = interned("forward");
  PyObject* dict = guards::instance_dict(module);
  PyObject* forward = _PyType_Lookup(Py_TYPE(module), name.get());
  if (!forward || !PyFunction_Check(forward) || (dict && PyDict_GetItemWithError(dict, name.get()))) return {};
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward));
  PyRef variables = python::checked(PyCode_GetVarnames(code));
  ForwardParameters found{{}, python::is_library(python::text_of(code->co_filename))};
  for (int i = 0; i < code->co_argcount; ++i)
    found.names.emplace_back(python::text_of(PyTuple_GET_ITEM(variables.get(), i)));
  return found;
}

bool calls_a_module(PyCodeObject* code, PyObject* self) {
  return python::text_of(code->co_name) == "_wrapped_call_impl" && self && is_nn_module(self);
}

void name_inputs_as_forward_does(Capture& capture, PyCodeObject* code, PyObject* self) {
  if (!calls_a_module(code, self)) return;
  const std::vector<std::string> parameters = parameters_of_forward(self).names;
  for (Input& input : capture.graph.inputs) input.value->name = renamed(input.value->name, parameters);
}

}  // namespace firesteel::capture
