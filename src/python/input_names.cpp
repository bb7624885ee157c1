// Looks for names: in the signature for arguments, in modules, closures and globals for captured tensors.
#include "python/input_names.h"

#include <unordered_map>

#include "python/constants.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"

namespace firesteel::python {
namespace {

using TensorNames = std::unordered_map<const c10::TensorImpl*, std::string>;

bool is_module(PyObject* object) {
  return object && !is_plain_constant(object) && !PyType_Check(object) && is_constant(object);
}

// Calls visit(item) for each item of an iterable; stops quietly where iterating fails.
template <class F>
void each_item(PyObject* iterable, F&& visit) {
  PyRef iterator = PyRef::steal(iterable ? PyObject_GetIter(iterable) : nullptr);
  while (iterator) {
    PyRef item = PyRef::steal(PyIter_Next(iterator.get()));
    if (!item) break;
    visit(item.get());
  }
  PyErr_Clear();
}

// Positional parameters in order; the last may stand for all that follow (`*args`).
struct Parameters {
  std::vector<std::string> names;
  std::string rest = "arg";

  std::string name(size_t index) const {
    return index < names.size() ? names[index] : rest + "_" + std::to_string(index - names.size());
  }
};

Parameters parameters_of(PyObject* function) {
  Parameters result;
  PyRef forward = is_module(function) ? attribute(function, "forward") : PyRef::borrow(function);
  PyRef inspect = PyRef::steal(PyImport_ImportModule("inspect"));
  PyRef signature = PyRef::steal(
      inspect && forward ? PyObject_CallMethod(inspect.get(), "signature", "(O)", forward.get()) : nullptr);
  PyRef parameters = attribute(signature.get(), "parameters");
  PyRef values = PyRef::steal(parameters ? PyObject_CallMethod(parameters.get(), "values", nullptr) : nullptr);
  PyErr_Clear();
  each_item(values.get(), [&](PyObject* parameter) {
    PyRef kind = attribute(parameter, "kind"), name = attribute(parameter, "name");
    const long number = kind ? PyLong_AsLong(kind.get()) : -1;  // inspect's kinds in the order a signature has them
    if (number == 0 || number == 1) result.names.emplace_back(text_of(name.get()));
    if (number == 2) result.rest = text_of(name.get());
  });
  PyErr_Clear();
  return result;
}

void add_module(TensorNames& names, const std::string& prefix, PyObject* module) {
  for (const char* listing : {"named_parameters", "named_buffers"}) {
    PyRef pairs = PyRef::steal(PyObject_CallMethod(module, listing, nullptr));
    PyErr_Clear();
    each_item(pairs.get(), [&](PyObject* pair) {
      if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || !is_tensor(PyTuple_GET_ITEM(pair, 1))) return;
      const std::string name(text_of(PyTuple_GET_ITEM(pair, 0)));
      names.emplace(unpack(PyTuple_GET_ITEM(pair, 1)).unsafeGetTensorImpl(),
                    prefix.empty() ? name : prefix + "." + name);
    });
  }
}

void add_object(TensorNames& names, const std::string& name, PyObject* object) {
  if (!object) return;
  if (is_module(object)) {
    add_module(names, name, object);
  } else if (is_tensor(object) && !name.empty()) {
    names.emplace(unpack(object).unsafeGetTensorImpl(), name);
  }
}

// What a Python function can reach by name: its closure, and the globals its code mentions.
void add_function(TensorNames& names, PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  PyRef free_names = attribute(reinterpret_cast<PyObject*>(code), "co_freevars");
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  for (Py_ssize_t i = 0; closure && free_names && i < PyTuple_GET_SIZE(closure); ++i) {
    PyRef held = attribute(PyTuple_GET_ITEM(closure, i), "cell_contents");
    add_object(names, std::string(text_of(PyTuple_GET_ITEM(free_names.get(), i))), held.get());
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_names, i);
    PyRef held = PyRef::borrow(PyDict_GetItemWithError(PyFunction_GET_GLOBALS(function), name));
    add_object(names, std::string(text_of(name)), held.get());
  }
}

TensorNames reachable_tensors(PyObject* function) {
  TensorNames names;
  PyRef current = PyRef::borrow(function);
  for (int depth = 0; depth < 8 && current; ++depth) {
    add_object(names, "", current.get());
    if (PyFunction_Check(current.get())) add_function(names, current.get());
    PyRef self = attribute(current.get(), "__self__");
    if (self && is_module(self.get())) add_object(names, "", self.get());
    PyRef next = attribute(current.get(), "__func__");
    current = next ? next : attribute(current.get(), "func");
  }
  PyErr_Clear();
  return names;
}

}  // namespace

void name_inputs(Graph& graph, PyObject* function, const Tree& args, const Tree& kwargs) {
  ErrorAside aside;
  const Parameters parameters = parameters_of(function);
  std::vector<std::string> argument_names;
  for (size_t i = 0; i < args.children.size(); ++i) name_leaves(args.children[i], parameters.name(i), argument_names);
  name_leaves(kwargs, "", argument_names);
  std::optional<TensorNames> captured_names;
  size_t argument = 0;
  for (Input& input : graph.inputs) {
    if (input.role == InputRole::Argument && argument < argument_names.size()) {
      input.value->name = argument_names[argument++];
    } else if (input.role == InputRole::Captured && input.captured.defined()) {
      if (!captured_names) captured_names = reachable_tensors(function);
      auto found = captured_names->find(input.captured.unsafeGetTensorImpl());
      if (found != captured_names->end()) input.value->name = found->second;
    }
  }
}

std::string name_of_captured(PyObject* function, const at::Tensor& tensor) {
  ErrorAside aside;
  const TensorNames names = reachable_tensors(function);
  auto found = names.find(tensor.unsafeGetTensorImpl());
  return found == names.end() ? std::string() : found->second;
}

std::string name_of(PyObject* function) {
  ErrorAside aside;
  PyRef name = attribute(function, "__name__");
  PyRef inner = name ? PyRef() : attribute(function, "func");
  if (!name && inner) return name_of(inner.get());
  if (!name) name = attribute(reinterpret_cast<PyObject*>(Py_TYPE(function)), "__name__");
  std::string text;
  for (const char c : text_of(name.get())) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') text += c;
  }
  return text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) ? "graph" : text;
}

}  // namespace firesteel::python
